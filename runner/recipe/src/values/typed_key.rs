//! Keys with the type of their values. That a key exists, takes such values and has a default is checked when the program
//! is compiled, so that no reader of settings needs a fallback of its own.

use crate::Extent;
use crate::keys::key::Kind;
use crate::keys::lookup::{KeyId, id};
use crate::keys::table::KEYS;
use crate::spec::family::{Choice, Family};
use crate::values::leaf::Typed;
use crate::values::settings::Settings;
use std::time::Duration;

/// A key that has a value in every recipe, because the table has a default.
#[derive(Clone, Copy)]
pub(crate) struct Defaulted<T> {
    key: KeyId,
    value: fn(&Typed) -> Option<T>,
}

/// A key that has a value only where the recipe gives one.
#[derive(Clone, Copy)]
pub(crate) struct Optional<T> {
    key: KeyId,
    value: fn(&Typed) -> Option<T>,
}

impl<T> Defaulted<T> {
    /// The value that was given, else the table's default.
    pub(crate) fn of(&self, settings: &Settings) -> T {
        let leaf = settings.get(self.key);
        leaf.and_then(|leaf| (self.value)(&leaf.typed)).unwrap_or_else(|| {
            unreachable!("`{}` has a default, and no value of another kind", self.key.key().path)
        })
    }
}

impl<T> Optional<T> {
    /// The value that was given.
    pub(crate) fn of(&self, settings: &Settings) -> Option<T> {
        settings.get(self.key).and_then(|leaf| (self.value)(&leaf.typed))
    }

    /// Whole path of the key: `train.optimizer.lr`.
    pub(crate) fn path(&self) -> &'static str {
        self.key.key().path
    }

    /// Last part of the path: `lr`.
    pub(crate) fn name(&self) -> &'static str {
        self.key.key().name()
    }
}

impl<T> From<Defaulted<T>> for KeyId {
    fn from(key: Defaulted<T>) -> Self {
        key.key
    }
}

impl<T> From<Optional<T>> for KeyId {
    fn from(key: Optional<T>) -> Self {
        key.key
    }
}

/// A constructor for keys whose values are of one type; the row of the table is checked against it.
macro_rules! key_of {
    ($key:ident::$name:ident, $type:ty, $kinds:pat, $default:ident, $value:expr) => {
        impl $key<$type> {
            pub(crate) const fn $name(path: &str) -> Self {
                let key = id(path);
                assert!(matches!(KEYS[key.0].kind, $kinds) && KEYS[key.0].default.$default());
                Self { key, value: $value }
            }
        }
    };
}

key_of!(Defaulted::whole, u64, Kind::Whole(..), is_some, Typed::whole);
key_of!(Defaulted::number, f64, Kind::Number(_) | Kind::Share(_), is_some, Typed::number);
key_of!(Defaulted::flag, bool, Kind::Flag, is_some, Typed::flag);
key_of!(Defaulted::extent, Extent, Kind::Extent(_), is_some, Typed::extent);
key_of!(Optional::whole, u64, Kind::Whole(..), is_none, Typed::whole);
key_of!(Optional::flag, bool, Kind::Flag, is_none, Typed::flag);
key_of!(Optional::number, f64, Kind::Number(_) | Kind::Share(_), is_none, Typed::number);
key_of!(Optional::extent, Extent, Kind::Extent(_), is_none, Typed::extent);
key_of!(Optional::duration, Duration, Kind::Duration, is_none, Typed::duration);
key_of!(Defaulted::size, u64, Kind::Size, is_some, Typed::whole);
key_of!(Optional::bandwidth, u64, Kind::Bandwidth, is_none, Typed::whole);

impl<F: Family> Defaulted<F> {
    pub(crate) const fn choice(path: &str) -> Self {
        let key = id(path);
        assert!(takes::<F>(key) && KEYS[key.0].default.is_some());
        Self { key, value: chosen }
    }
}

impl<F: Family> Optional<F> {
    pub(crate) const fn choice(path: &str) -> Self {
        let key = id(path);
        assert!(takes::<F>(key) && KEYS[key.0].default.is_none());
        Self { key, value: chosen }
    }
}

fn chosen<F: Family>(typed: &Typed) -> Option<F> {
    match typed {
        Typed::Choice(name) => F::named(name),
        _ => None,
    }
}

/// Whether a key takes the names of a family.
const fn takes<F: Family>(key: KeyId) -> bool {
    match KEYS[key.0].kind {
        Kind::Choice(choices) => same(choices, F::CHOICES),
        _ => false,
    }
}

const fn same(one: &[Choice], other: &[Choice]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() {
        if !crate::keys::lookup::same(one[index].name.as_bytes(), other[index].name.as_bytes()) {
            return false;
        }
        index += 1;
    }
    index == one.len() && index == other.len()
}

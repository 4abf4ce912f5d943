//! A family is the closed set of names that one key of a recipe takes: an enum declared by [`family!`], which keeps each
//! member's name and words beside it. Whatever else the program knows of a member is an exhaustive match over the enum,
//! so that the compiler lists what a new member needs. Names that cannot be chosen are no members.

use std::fmt::{Debug, Display};

/// A name that a key takes, or that it is known not to take yet.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The name, as a recipe writes it.
    pub name: &'static str,
    /// The words of `bakeoff explain`.
    pub doc: &'static str,
    /// Whether it can be chosen.
    pub availability: Availability,
}

/// Whether a name can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It is a member of its family.
    Now,
    /// Not in this version.
    Later,
    /// A paper's name for settings of this program, which are given here in the recipe's words.
    Setting(&'static str),
}

impl Choice {
    pub(crate) const fn now(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, availability: Availability::Now }
    }

    pub(crate) const fn later(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, availability: Availability::Later }
    }

    pub(crate) const fn setting(name: &'static str, doc: &'static str, setting: &'static str) -> Self {
        Self { name, doc, availability: Availability::Setting(setting) }
    }
}

/// The members of a closed set and their names.
pub trait Family: Copy + Debug + Display + Eq + 'static {
    /// Every member, in the order of the documentation.
    const ALL: &'static [Self];
    /// Every known name: those of the members first, in the same order.
    const CHOICES: &'static [Choice];

    /// The name, as a recipe writes it.
    fn name(self) -> &'static str;

    /// The member of this name.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|member| member.name() == name)
    }
}

/// Declares a family: `Member = "name": "Words for people.",`, then the names that are no members.
macro_rules! family {
    (
        $(#[$outer:meta])*
        $vis:vis enum $family:ident {
            $( $(#[$inner:meta])* $member:ident = $name:literal: $doc:literal, )+
        }
        $( later { $( $later:literal: $later_doc:literal, )+ } )?
        $( settings { $( $paper:literal: $paper_doc:literal => $setting:literal, )+ } )?
    ) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $family {
            $( #[doc = $doc] $(#[$inner])* $member, )+
        }

        impl $family {
            /// Every member, in the order of the documentation.
            $vis const ALL: &'static [Self] = &[$( Self::$member ),+];

            /// The name, as a recipe writes it.
            $vis const fn name(self) -> &'static str {
                match self {
                    $( Self::$member => $name, )+
                }
            }
        }

        impl $crate::spec::family::Family for $family {
            const ALL: &'static [Self] = Self::ALL;
            const CHOICES: &'static [$crate::spec::family::Choice] = &[
                $( $crate::spec::family::Choice::now($name, $doc), )+
                $( $( $crate::spec::family::Choice::later($later, $later_doc), )+ )?
                $( $( $crate::spec::family::Choice::setting($paper, $paper_doc, $setting), )+ )?
            ];

            fn name(self) -> &'static str {
                self.name()
            }
        }

        impl std::fmt::Display for $family {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str(self.name())
            }
        }
    };
}

pub(crate) use family;

#[cfg(test)]
mod tests {
    use super::*;

    family! {
        enum Fruit {
            RedApple = "red-apple": "An apple.",
            Pear = "pear": "A pear.",
        }
        later { "quince": "A quince.", }
        settings { "granny-smith": "A green apple." => "`colour = \"green\"`", }
    }

    #[test]
    fn a_member_is_stored_under_its_name() {
        fn check<F: Family + serde::Serialize>() {
            for member in F::ALL {
                assert_eq!(
                    serde_json::to_value(member).expect("it is plain data"),
                    member.name(),
                    "{member:?}"
                );
            }
        }
        check::<crate::Topology>();
        check::<crate::MixOrder>();
        check::<crate::Serve>();
        check::<crate::Averaging>();
        check::<crate::ReduceOrder>();
        check::<crate::Init>();
        check::<crate::ModelKind>();
        check::<crate::Sampling>();
        check::<crate::KeptModels>();
        check::<crate::KeptSteps>();
        check::<crate::Redaction>();
    }

    #[test]
    fn members_come_first_and_only_they_have_values() {
        let names: Vec<&str> = Fruit::CHOICES.iter().map(|choice| choice.name).collect();
        assert_eq!(names, ["red-apple", "pear", "quince", "granny-smith"]);
        assert_eq!(Fruit::named("pear"), Some(Fruit::Pear));
        assert_eq!(Fruit::named("quince"), None);
        let later = Fruit::CHOICES.iter().find(|choice| choice.availability == Availability::Later);
        assert_eq!(later.map(|choice| choice.doc), Some("A quince."));
        assert_eq!(Fruit::RedApple.to_string(), "red-apple");
    }
}

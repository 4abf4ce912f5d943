//! From a checked recipe to cells: arms times conditions, minus excluded cells.

use crate::query::condition::Subjects;
use crate::resolve::assign;
use crate::resolve::inventory::Known;
use crate::resolve::shared_keys::WORKERS;
use crate::sweep::axes::{Axis, Dimension, Scope};
use crate::sweep::recipe::{Recipe, StrategySetting};
use crate::text::finding::Finding;
use crate::values::leaf::Leaf;
use crate::values::settings::Settings;
use crate::{Arm, AxisValue, StrategyKind};

/// A sweep of more cells than this is a slip of the pen.
const MOST_CELLS: u64 = 100_000;

/// A point of one or more dimensions: for each of them, which of its values.
type Choice<'a> = Vec<(&'a Dimension, usize)>;

/// A cell before its specification is built.
pub(crate) struct Draft {
    pub(crate) arm: usize,
    pub(crate) kind: StrategyKind,
    pub(crate) condition: String,
    pub(crate) label: String,
    pub(crate) axes: Vec<AxisValue>,
    pub(crate) settings: Settings,
    pub(crate) excluded: Option<String>,
}

/// An arm and how to make its cells.
struct ArmDraft<'a> {
    arm: Arm,
    strategy: &'a StrategySetting,
    choice: Choice<'a>,
}

/// Everything that a recipe expands to.
pub(crate) struct Expansion {
    pub(crate) arms: Vec<Arm>,
    pub(crate) drafts: Vec<Draft>,
}

/// Expands a recipe; `None` where it is too large.
pub(crate) fn expand(recipe: &Recipe, machine: Known<'_>, findings: &mut Vec<Finding>) -> Option<Expansion> {
    refuse_too_many(recipe, findings)?;
    let mut arms: Vec<ArmDraft<'_>> = Vec::new();
    for (index, strategy) in recipe.strategies.iter().enumerate() {
        arms.extend(arms_of(recipe, index, strategy));
    }
    choose_baseline(recipe, &mut arms, findings);
    let conditions: Vec<&Dimension> =
        recipe.dimensions.iter().filter(|dimension| dimension.scope == Scope::Conditions).collect();
    let names: Vec<&str> = recipe.strategies.iter().map(|strategy| strategy.name.as_str()).collect();
    let mut drafts = Vec::new();
    let mut used = vec![false; recipe.exclusions.len()];
    // Of a point beside the product there is nothing to combine.
    let beside = recipe.includes.iter().map(|include| vec![(include, 0)]);
    for condition in product(&conditions).into_iter().chain(beside) {
        for (index, arm) in arms.iter().enumerate() {
            let mut draft = draft(recipe, index, arm, &condition, machine);
            exclude(recipe, arm, &names, &mut draft, &mut used);
            drafts.push(draft);
        }
    }
    warn_unused(recipe, &used, findings);
    Some(Expansion { arms: arms.into_iter().map(|draft| draft.arm).collect(), drafts })
}

fn refuse_too_many(recipe: &Recipe, findings: &mut Vec<Finding>) -> Option<()> {
    let size = |scope: &dyn Fn(Scope) -> bool| {
        (recipe.dimensions.iter())
            .filter(|dimension| scope(dimension.scope))
            .fold(1_u64, |product, dimension| product.saturating_mul(dimension.length() as u64))
    };
    let conditions = size(&|scope| scope == Scope::Conditions).saturating_add(recipe.includes.len() as u64);
    let arms = (0..recipe.strategies.len()).fold(0_u64, |sum, index| {
        sum.saturating_add(size(&|scope| scope == Scope::Arms || scope == Scope::Strategy(index)))
    });
    let cells = arms.saturating_mul(conditions);
    if cells <= MOST_CELLS {
        return Some(());
    }
    let last = recipe.dimensions.iter().flat_map(|dimension| &dimension.axes).next_back();
    findings.push(
        Finding::new("R036", format!("the sweep has {cells} cells; at most {MOST_CELLS} can be planned"))
            .at_option(last.map(|axis| axis.span), "the last of its axes")
            .cure("let axes move in lockstep with [[sweep.zip]], or take fewer values"),
    );
    None
}

fn arms_of<'a>(recipe: &'a Recipe, index: usize, strategy: &'a StrategySetting) -> Vec<ArmDraft<'a>> {
    let dimensions: Vec<&Dimension> = (recipe.dimensions.iter())
        .filter(|dimension| match dimension.scope {
            Scope::Strategy(own) => own == index,
            Scope::Arms => {
                !dimension.axes.iter().all(|axis| axis.has_no_effect_on(strategy.kind, &strategy.settings))
            }
            Scope::Conditions => false,
        })
        .collect();
    let named = |choice: Choice<'a>| {
        let values = words(&choice);
        let name =
            if values.is_empty() { strategy.name.clone() } else { format!("{} {values}", strategy.name) };
        ArmDraft {
            arm: Arm { name, kind: strategy.kind.name().to_owned(), baseline: false },
            strategy,
            choice,
        }
    };
    product(&dimensions).into_iter().map(named).collect()
}

/// Marks the one arm that the others are compared with: the declared one, else that of the first strategy which
/// no axis multiplies, else the first.
fn choose_baseline(recipe: &Recipe, arms: &mut [ArmDraft<'_>], findings: &mut Vec<Finding>) {
    let count = |strategy: &&StrategySetting| {
        arms.iter().filter(|draft| draft.strategy.name == strategy.name).count()
    };
    let declared = recipe.strategies.iter().find(|strategy| strategy.baseline.is_some());
    if let Some((strategy, count)) = declared.map(|strategy| (strategy, count(&strategy)))
        && count > 1
    {
        let title = format!("the baseline `{}` is {count} arms", strategy.name.escape_debug());
        findings.push(
            Finding::new("R103", title)
                .at_option(strategy.baseline, "one arm is the baseline")
                .cure("make the arm that is compared with a [[strategy]] of its own, without axes"),
        );
    }
    let single = || recipe.strategies.iter().find(|strategy| count(strategy) == 1);
    let name = declared.or_else(single).map(|strategy| strategy.name.as_str());
    let index = arms.iter().position(|draft| name.is_none_or(|name| draft.strategy.name == name));
    if let Some(draft) = index.and_then(|index| arms.get_mut(index)) {
        draft.arm.baseline = true;
    }
}

/// Every combination; the last dimension changes fastest. Of no dimensions there is one: the empty one.
fn product<'a>(dimensions: &[&'a Dimension]) -> Vec<Choice<'a>> {
    let mut choices: Vec<Choice<'a>> = vec![Vec::new()];
    for dimension in dimensions {
        choices = choices
            .into_iter()
            .flat_map(|choice| {
                (0..dimension.length()).map(move |value| {
                    let mut longer = choice.clone();
                    longer.push((*dimension, value));
                    longer
                })
            })
            .collect();
    }
    choices
}

fn axes<'a, 'b>(choice: &'b Choice<'a>) -> impl Iterator<Item = (&'a Axis, usize)> + use<'a, 'b> {
    choice.iter().flat_map(|(dimension, value)| dimension.axes.iter().map(move |axis| (axis, *value)))
}

/// Label of a choice: `workers=4 lr=0.1`.
fn words(choice: &Choice<'_>) -> String {
    let words: Vec<String> =
        axes(choice).map(|(axis, value)| format!("{}={}", axis.short, axis.points[value].text)).collect();
    words.join(" ")
}

fn draft(
    recipe: &Recipe,
    index: usize,
    arm: &ArmDraft<'_>,
    condition: &Choice<'_>,
    machine: Known<'_>,
) -> Draft {
    let mut settings = recipe.settings.clone();
    let global = |(axis, _): &(&Axis, usize)| !axis.path.starts_with("strategy.");
    // From the general to the particular: the recipe, its axes, the strategy, the strategy's axes.
    for (axis, value) in axes(condition).chain(axes(&arm.choice).filter(global)) {
        axis.points[value].apply(&mut settings);
    }
    settings.overlay(&arm.strategy.settings);
    for (axis, value) in axes(&arm.choice).filter(|axis| !global(axis)) {
        axis.points[value].apply(&mut settings);
    }
    if settings.given(WORKERS).is_none()
        && let Some(slots) = assign::slots(&settings, machine)
    {
        settings.put(WORKERS, Leaf::whole(u64::from(slots)));
    }
    let words = words(condition);
    let label = if words.is_empty() { arm.arm.name.clone() } else { format!("{} {words}", arm.arm.name) };
    let axes = axes(&arm.choice)
        .chain(axes(condition))
        .map(|(axis, value)| {
            let point = &axis.points[value];
            AxisValue { path: axis.path.clone(), text: point.text.clone(), number: point.number }
        })
        .collect();
    Draft { arm: index, kind: arm.strategy.kind, condition: words, label, axes, settings, excluded: None }
}

fn exclude(recipe: &Recipe, arm: &ArmDraft<'_>, names: &[&str], draft: &mut Draft, used: &mut [bool]) {
    let subjects = Subjects {
        strategy: &arm.strategy.name,
        kind: arm.strategy.kind,
        strategies: names,
        arm: &arm.arm.name,
        condition: &draft.condition,
        settings: &draft.settings,
    };
    for (exclusion, used) in recipe.exclusions.iter().zip(used) {
        if exclusion.when.holds(&subjects) {
            *used = true;
            draft.excluded.get_or_insert_with(|| exclusion.reason.clone());
        }
    }
}

fn warn_unused(recipe: &Recipe, used: &[bool], findings: &mut Vec<Finding>) {
    for (exclusion, _) in recipe.exclusions.iter().zip(used).filter(|(_, used)| !**used) {
        if let Some(span) = exclusion.span {
            findings.push(
                Finding::new("R202", "an exclusion that excludes nothing")
                    .at(span, "no cell meets this condition"),
            );
        }
    }
}

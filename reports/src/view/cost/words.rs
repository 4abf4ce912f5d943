//! The sentences on costs: which arm is the soonest, which the cheapest, and the costs counted.

use super::super::condition_title;
use super::super::folding::are_folded;
use crate::cost::{self, Bill, Costs};
use crate::findings::Findings;
use crate::number_format;
use crate::scoreboard::TextCell;
use crate::verdict::{capitalised, target_words, whole_percent};
use crate::winner::{Winner, winner};
use comparison::study::{Condition, Resource, SpeedMeasure};

/// Sentences where conditions are many.
const MOST_SAID: usize = 12;

pub(super) struct Words<'w> {
    pub(super) findings: &'w Findings<'w>,
    pub(super) bill: &'w Bill,
}

/// The arms of a condition that need the least time and the least of what decides.
struct Best<'w> {
    condition: &'w Condition<'w>,
    costs: &'w Costs,
    soonest: Winner,
    cheapest: Winner,
}

impl Words<'_> {
    pub(super) fn time_name(&self) -> String {
        let have_targets = self.findings.study.conditions.iter().all(|condition| condition.target.is_some());
        if have_targets { "time to target" } else { "time" }.to_owned()
    }

    pub(super) fn resource_name(&self, resource: Resource) -> String {
        match (resource, self.currency()) {
            (Resource::Time, _) => "time".to_owned(),
            (Resource::Machines, _) => "machine time".to_owned(),
            (Resource::Ranks, _) => "rank time".to_owned(),
            (Resource::Money, "") => "price".to_owned(),
            (Resource::Money, currency) => format!("price ({currency})"),
        }
    }

    fn currency(&self) -> &str {
        &self.findings.rows().plan.report.prices.currency
    }

    /// A sentence for each condition; where there are many, for those in which the soonest arm is not the cheapest.
    pub(super) fn said(&self) -> Vec<String> {
        let found: Vec<Best> = self.best();
        if !are_folded(&self.findings.study) {
            return found.iter().map(|best| self.sentence(best)).collect();
        }
        let differs = |best: &&Best| best.soonest.arm != best.cheapest.arm;
        let same = found.len() - found.iter().filter(differs).count();
        let mut said = vec![format!(
            "In {same} of {} the arm with the least time is also the one with the least cost.",
            number_format::plural(found.len(), "condition")
        )];
        said.extend(found.iter().filter(differs).take(MOST_SAID).map(|best| self.sentence(best)));
        said
    }

    fn best(&self) -> Vec<Best<'_>> {
        let of_condition = |(number, condition): (usize, _)| {
            let (condition, comparisons): (&Condition, _) = condition;
            let costs = self.bill.deciding(condition)?;
            let soonest = winner(self.findings, condition, comparisons)?;
            let cheapest = costs.cheapest(self.findings, number, condition)?;
            Some(Best { condition, costs, soonest, cheapest })
        };
        self.findings.conditions().enumerate().filter_map(of_condition).collect()
    }

    /// `workers=4: d-sync is the soonest (12.1 s, 60.5 s of rank time); local-sgd is the cheapest (14.0 s, 56.0 s of rank time), with
    /// 1.16× the time at 0.93× the cost.`
    fn sentence(&self, best: &Best<'_>) -> String {
        let Best { condition, costs, soonest, cheapest } = best;
        let effect = whole_percent(self.findings.thresholds.min_effect);
        let place = |winner: &Winner| condition.cells.iter().position(|cell| cell.arm == winner.arm);
        let times = Costs::times(self.findings, condition);
        let amounts = costs.amounts(self.findings, condition);
        let bill = |winner: &Winner| {
            let Some(place) = place(winner) else { return String::new() };
            format!("{}, {}", times[place].text, self.amount_words(costs.resource, &amounts[place].text))
        };
        let name = |winner: &Winner| self.findings.study.arm_name(winner.arm);
        let claim = |winner: &Winner, name: &str, word: &str| cost::claim(winner, name, word, &effect);
        let said = if soonest.arm != cheapest.arm {
            let share = |cells: &[TextCell]| {
                let [own, other] = [place(cheapest)?, place(soonest)?].map(|place| cells[place].sort);
                (own.is_finite() && other > 0.0).then(|| number_format::times(own / other))
            };
            let traded = share(&times).zip(share(&amounts));
            let traded = traded
                .map_or(String::new(), |(time, cost)| format!(", with {time} the time at {cost} the cost"));
            let first = bill(soonest);
            let second = bill(cheapest);
            let soonest = claim(soonest, name(soonest), "soonest");
            let cheapest = claim(cheapest, name(cheapest), "cheapest");
            format!("{soonest} ({first}); {cheapest} ({second}){traded}")
        } else if soonest.standing == cheapest.standing {
            format!("{} ({})", claim(soonest, name(soonest), "soonest and the cheapest"), bill(soonest))
        } else {
            let both =
                [claim(soonest, name(soonest), "soonest"), claim(cheapest, "it", "cheapest")].join("; ");
            format!("{both} ({})", bill(soonest))
        };
        if self.findings.has_conditions() {
            format!("{}: {said}.", condition_title(condition))
        } else if said.starts_with("whether ") {
            // Another beginning is the name of an arm.
            format!("{}.", capitalised(&said))
        } else {
            format!("{said}.")
        }
    }

    fn amount_words(&self, resource: Resource, amount: &str) -> String {
        match (resource, self.currency()) {
            (Resource::Money, "") => format!("a price of {amount}"),
            (Resource::Money, currency) => format!("{amount}\u{a0}{currency}"),
            _ => format!("{amount} of {}", self.resource_name(resource)),
        }
    }

    pub(super) fn reading(&self) -> String {
        let mut said = vec![format!(
            "The cost of {}, without the start-up. Machine time is that time, times the machines that have ranks of the run: each counts \
             whole, however little of it is used.",
            self.until()
        )];
        if self.bill.has(Resource::Ranks) {
            said.push(
                "Rank time counts each worker and each server as one, as if each had a machine, a GPU or a core of its own."
                    .to_owned(),
            );
        }
        if self.bill.has(Resource::Money) {
            said.push(
                "The price is that of the machine time, by the recipe's prices of an hour of each machine."
                    .to_owned(),
            );
        }
        said.push(
            "A ratio of costs is the ratio of the times, times that of what a second uses, so that intervals and verdicts are those of \
             the same test; of an arm that ends with the weights of the baseline, bit for bit, that of the times per step. Below 1× is cheaper \
             than the baseline."
                .to_owned(),
        );
        said.join(" ")
    }

    /// `the time to 97.0 % test accuracy`, `the time of the 480 steps of a run`.
    fn until(&self) -> String {
        let conditions = &self.findings.study.conditions;
        let Some(first) = conditions.first() else { return String::new() };
        let same = conditions.iter().all(|condition| condition.target == first.target);
        let steps = cost::steps(first);
        match (first.measure(), first.target) {
            (_, Some(target)) if same => format!("the time to {}", target_words(target)),
            (SpeedMeasure::StepTime, _)
                if same && conditions.iter().all(|other| cost::steps(other) == steps) =>
            {
                format!("the time of the {} of a run", number_format::plural(steps as usize, "step"))
            }
            (SpeedMeasure::StepTime, _) if same => "the time of all steps of a run".to_owned(),
            _ if conditions.iter().all(|condition| condition.target.is_some()) => {
                "the time to the target".to_owned()
            }
            _ => "the time to the target, or of all steps of a run without one".to_owned(),
        }
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let has_price = self.bill.has(Resource::Money);
        if !self.bill.several_machines {
            let decides = if has_price { "" } else { ": rank time decides which arm is the cheapest" };
            notes
                .push(format!("All runs had one machine, so that machine time is the time itself{decides}."));
        }
        if !self.findings.rows().plan.emulated().is_empty() {
            notes.push(
                "The recipe emulates machines that are not there; rank time counts one for each rank."
                    .to_owned(),
            );
        }
        if has_price {
            let cells = self.findings.study.arm_cells().map(|placed| placed.cell);
            let without = cells.filter(|cell| !cell.runs.is_empty() && cell.usage.hour.is_none()).count();
            notes.extend((without > 0).then(|| {
                let words = number_format::plural(without, "combination");
                format!("{words} of arm and condition used a machine without a price.")
            }));
        } else if self.bill.several_machines {
            notes.push(
                "With `nodes.price`, what an hour of a machine costs, these costs are shown in money, too; no run is repeated for it."
                    .to_owned(),
            );
        }
        notes.extend(self.control());
        notes
    }

    /// How to learn whether distributing pays, where every run had the same number of workers; of two selections there is no recipe to
    /// sweep.
    fn control(&self) -> Option<String> {
        let conditions = &self.findings.study.conditions;
        let workers = conditions.first()?.workers;
        let same = conditions.iter().all(|condition| condition.workers == workers);
        let is_run = self.findings.rows().argv.iter().any(|word| word == "run");
        (workers > 1 && same && is_run).then(|| {
            format!(
                "Whether it pays to distribute at all, a run on one worker would tell: `--sweep nodes.workers=1,{workers}` adds it and takes \
                 over the results that are there."
            )
        })
    }
}

//! Arms are hidden on the whole page at once, and the address records the selection.

use super::visit::{Visit, browser, visit_at};
use reports::sample::{GridAxis, Sample, on_grid, timelines};
use reports::{Options, page};
use serde_json::{Value, json};
use std::path::Path;
use store::SweepRows;

/// Runs a script in the page, an `async` function's body, and returns what it returned; nothing may be on the console.
fn tried(browser: &Path, html: &str, address: &str, script: &str) -> Value {
    let script = format!(
        "<script>(async () => {{ {script} }})().catch((error) => String(error)).then((found) => {{ \
         const place = document.createElement('pre'); place.id = 'found'; \
         place.textContent = JSON.stringify(found); document.body.append(place); }});</script></body>"
    );
    let visit: Visit = visit_at(browser, &html.replace("</body>", &script), address);
    assert_eq!(visit.console, Vec::<String>::new());
    let (_, found) =
        visit.document.split_once("<pre id=\"found\">").unwrap_or_else(|| panic!("the script did not end"));
    let found = found.split("</pre>").next().unwrap();
    serde_json::from_str(&found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).unwrap()
}

fn html(rows: &SweepRows) -> String {
    page(rows, &timelines(rows), &Options::default()).unwrap().html
}

fn duel() -> SweepRows {
    Sample { repeats: 3, workers: vec![2, 4], ..Sample::duel() }.rows()
}

/// Script that counts the parts of an arm that are shown, of each kind. All folds are open, so that none is out of
/// sight for another reason.
const SEEN: &str = "
    document.querySelectorAll('details').forEach((fold) => { fold.open = true; });
    const seen = (element) => element.getClientRects().length > 0;
    const of = (selector) => [...document.querySelectorAll(selector)].filter(seen).length;
    const kinds = (name, style) => [
      of(`tbody th .arm.${style}`), of(`.verdicts .arm.${style}`), of(`svg.chart g.${style}`), of(`[data-of='${name}']`),
      [...document.querySelectorAll('table.data tbody tr')].filter((row) => seen(row) && [...row.cells].some((cell) => cell.textContent === name)).length,
    ];";

#[test]
fn an_arm_is_hidden_everywhere_at_once_and_shown_again() {
    let Some(browser) = browser() else { return };
    let script = format!(
        "{SEEN}
        const before = [kinds('ps-sync', 'arm-0'), kinds('d-sync', 'arm-1')];
        document.querySelectorAll('#arms li button')[1].click();
        const pressed = [...document.querySelectorAll('.legend.arms li')].map((item) => [item.dataset.style, item.querySelector('button').ariaPressed].join());
        const hidden = [kinds('ps-sync', 'arm-0'), kinds('d-sync', 'arm-1'), location.hash, document.querySelector('#arms output').textContent];
        document.querySelector('#accuracy li[data-style=arm-1] button').click();
        const after = [kinds('ps-sync', 'arm-0'), kinds('d-sync', 'arm-1')];
        return {{ before, hidden, pressed: [...new Set(pressed)], after, address: location.hash }};"
    );
    let found = tried(&browser, &html(&duel()), "", &script);
    let counts = |value: &Value| -> Vec<u64> {
        value.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect()
    };
    let [own, other] = [1, 0].map(|arm| counts(&found["before"][arm]));
    assert!(own.iter().chain(&other).all(|count| *count > 0), "{found}");
    assert_eq!(counts(&found["hidden"][1]), [0; 5], "{found}");
    assert_eq!(counts(&found["hidden"][0]), other, "{found}");
    assert_eq!(
        (&found["hidden"][2], &found["hidden"][3]),
        (&json!("#arms=-d-sync"), &json!("1 of 2 hidden"))
    );
    assert_eq!(found["pressed"], json!(["arm-0,true", "arm-1,false"]));
    assert_eq!((&found["after"], &found["address"]), (&found["before"], &json!("")));
}

#[test]
fn shift_shows_an_arm_alone_and_one_button_shows_all() {
    let Some(browser) = browser() else { return };
    let script = "
        const hidden = () => [...arms.values()].filter((arm) => arm.hidden).map((arm) => arm.name);
        const button = document.querySelectorAll('#arms li button')[1];
        button.dispatchEvent(new MouseEvent('click', { shiftKey: true, bubbles: true }));
        const alone = hidden();
        document.querySelector('#arms > button').click();
        return [alone, hidden(), document.querySelector('#arms > button').hidden, document.activeElement.textContent.trim()];";
    let mut sample = Sample { repeats: 2, ..Sample::duel() };
    sample.arms.push(reports::sample::SampleArm { name: "third".to_owned(), ..sample.arms[1].clone() });
    let found = tried(&browser, &html(&sample.rows()), "", script);
    assert_eq!(found, json!([["ps-sync", "third"], [], true, "ps-sync"]));
}

/// The twenty-fifth arm looks like the first, and is another.
#[test]
fn arms_of_the_same_style_are_told_apart() {
    let Some(browser) = browser() else { return };
    let mut sample = Sample { repeats: 1, epochs: (1, 1), ..Sample::duel() };
    for number in 2..26 {
        sample
            .arms
            .push(reports::sample::SampleArm { name: format!("arm {number}"), ..sample.arms[1].clone() });
    }
    let script = "
        const rows = () => [...document.querySelectorAll('#scoreboard .board tbody tr')].map((row, place) => (row.hidden ? place : -1)).filter((place) => place !== -1);
        const buttons = document.querySelectorAll('#arms li button');
        buttons[0].click();
        const first = rows();
        buttons[0].click();
        buttons[24].click();
        return [first, rows(), location.hash];";
    let found = tried(&browser, &html(&sample.rows()), "", script);
    assert_eq!(found, json!([[0], [24], "#arms=-arm+24"]));
}

#[test]
fn the_others_fade_while_the_pointer_is_on_an_arm() {
    let Some(browser) = browser() else { return };
    let script = "
        const faded = () => ['arm-0', 'arm-1'].map((style) => document.querySelectorAll(`svg.chart g.${style}.faded`).length);
        const over = (element) => element.dispatchEvent(new PointerEvent('pointerover', { bubbles: true, pointerType: 'mouse' }));
        over(document.querySelector('#scoreboard tbody tr'));
        const row = faded();
        over(document.querySelector('h1'));
        const none = faded();
        over(document.querySelector('#accuracy .legend li[data-style=arm-1] button'));
        const legend = faded();
        document.querySelectorAll('#arms li button')[1].click();
        return [row.map((count) => count > 0), none, legend.map((count) => count > 0), faded()];";
    let found = tried(&browser, &html(&duel()), "", script);
    assert_eq!(found, json!([[false, true], [0, 0], [true, false], [0, 0]]));
}

const CHOSEN: &str = "#scoreboard&arms=-d-sync&axis=accuracy-0.epochs&rise=loss-0.logarithmic&sort=-scoreboard.step+time&theme=dark";

#[test]
fn the_address_says_what_is_shown() {
    let Some(browser) = browser() else { return };
    let look = "
        const checked = [...document.querySelectorAll('input:checked')].map((input) => input.id).filter((id) => !id.endsWith('-0'));
        const sorted = [...document.querySelectorAll('[aria-sort]')].map((head) => [head.textContent, head.ariaSort, head.closest('section').id].join());
        return [settingsOfPage().toString(), checked, sorted, getComputedStyle(document.documentElement).colorScheme, scrollY > 100, location.hash];";
    let html = html(&Sample { repeats: 3, ..Sample::duel() }.rows());
    let found = tried(&browser, &html, CHOSEN, look);
    let settings = CHOSEN.strip_prefix("#scoreboard&").unwrap();
    let checked = ["theme-dark", "accuracy-0-axis-1", "loss-0-rise-1"];
    assert_eq!(found, json!([settings, checked, ["step time,descending,scoreboard"], "dark", true, CHOSEN]));
    // By hand the same address comes about.
    let press = "
        document.querySelector('nav a[href=\"#scoreboard\"]').click();
        await new Promise((done) => addEventListener('hashchange', done, { once: true }));
        document.querySelectorAll('#arms li button')[1].click();
        for (const id of ['accuracy-0-axis-1', 'loss-0-rise-1', 'theme-dark']) document.getElementById(id).click();
        const head = [...document.querySelectorAll('#scoreboard thead th')].find((head) => head.textContent === 'step time');
        head.click();
        head.querySelector('button').click();
        return location.hash;";
    assert_eq!(tried(&browser, &html, "", press), json!(CHOSEN));
}

#[test]
fn conditions_are_opened_by_the_address() {
    let Some(browser) = browser() else { return };
    let one = Sample { repeats: 1, epochs: (1, 1), ..Sample::duel() }.rows();
    let rows = on_grid(&one, &[GridAxis::new("nodes.workers", &[2.0, 3.0, 4.0, 5.0, 6.0])], |_, _| 5e-3);
    let look = "
        await new Promise((done) => setTimeout(done, 50));
        const open = () => [...document.querySelectorAll('details.condition')].filter((fold) => fold.open).map((fold) => fold.id);
        const before = open();
        document.getElementById('condition-1').open = true;
        await new Promise((done) => setTimeout(done, 50));
        return [before, open(), location.hash];";
    let html = html(&rows);
    let all = ["condition-1", "condition-3"];
    assert_eq!(
        tried(&browser, &html, "#open=condition-3", look),
        json!([["condition-3"], all, "#open=condition-1&open=condition-3"])
    );
    // The name of a condition alone leads to it.
    let address = "#condition-3&open=condition-1&open=condition-3";
    assert_eq!(tried(&browser, &html, "#condition-3", look), json!([["condition-3"], all, address]));
    // The page is shown before the address says that the condition is open.
    let shown_early = "
        history.replaceState({ view: true }, '', '#condition-3');
        document.getElementById('condition-3').open = false;
        dispatchEvent(new Event('pageshow'));
        return document.getElementById('condition-3').open;";
    assert_eq!(tried(&browser, &html, "#condition-3", shown_early), json!(true));
}

#[test]
fn back_and_forward_restore_what_was_shown() {
    let Some(browser) = browser() else { return };
    let walk = "
        const turn = (how) => new Promise((done) => { addEventListener('hashchange', () => setTimeout(done), { once: true }); how(); });
        const seen = () => [...arms.values()].map((arm) => !arm.hidden).join() + ' ' + location.hash;
        const all = [];
        document.querySelectorAll('#arms li button')[0].click();
        await turn(() => document.querySelector('nav a[href=\"#scoreboard\"]').click());
        all.push(seen());
        document.querySelector('#arms > button').click();
        document.querySelectorAll('#arms li button')[1].click();
        all.push(seen());
        await turn(() => history.back());
        all.push(seen());
        await turn(() => history.forward());
        all.push(seen());
        return all;";
    let found = tried(&browser, &html(&Sample { repeats: 2, ..Sample::duel() }.rows()), "", walk);
    let second = "true,false #scoreboard&arms=-d-sync";
    assert_eq!(
        found,
        json!(["false,true #scoreboard&arms=-ps-sync", second, "false,true #arms=-ps-sync", second])
    );
}

#[test]
fn an_address_that_means_nothing_does_nothing() {
    let Some(browser) = browser() else { return };
    let script = "
        const shape = () => [document.querySelectorAll('*').length, document.querySelectorAll('[hidden]').length, settingsOfPage().toString()];
        const before = JSON.stringify(shape());
        const changed = [];
        for (const address of [
          'nowhere', '&&&', '=', '%', '%E0%A4%A', 'arms=-nothing&arms=d-sync&arms=&arms=-', 'axis=accuracy-0.nothing&axis=.', 'axis=rise-0.epochs',
          'sort=scoreboard.&sort=-.&sort=__proto__.constructor', 'open=scoreboard&open=../x&open=method', 'theme=blue&theme=system', '__proto__=1&constructor=2',
          '<img src=x onerror=console.error(1)>', 'arms=-<img src=x onerror=console.error(1)>', '%3Cscript%3Econsole.error(1)%3C/script%3E&a=b', 'x'.repeat(100000),
        ]) {
          await new Promise((done) => { addEventListener('hashchange', () => setTimeout(done), { once: true }); location.hash = address; });
          if (JSON.stringify(shape()) !== before) changed.push(address.slice(0, 80));
        }
        return changed;";
    assert_eq!(
        tried(&browser, &html(&Sample { repeats: 2, ..Sample::duel() }.rows()), "", script),
        json!([])
    );
}

#[test]
fn an_arm_of_any_name_comes_back_from_the_address() {
    let Some(browser) = browser() else { return };
    let name = "a&b=c#d%20+é, \"<img src=x onerror=console.error(1)>\" 雪 -e";
    let mut sample = Sample { repeats: 2, ..Sample::duel() };
    name.clone_into(&mut sample.arms[1].name);
    let html = html(&sample.rows());
    let hidden =
        "const hidden = () => [...arms.values()].filter((arm) => arm.hidden).map((arm) => arm.name);";
    let press = format!(
        "{hidden} document.querySelectorAll('#arms li button')[1].click(); return [hidden(), location.hash];"
    );
    let found = tried(&browser, &html, "", &press);
    assert_eq!(found[0], json!([name]));
    let address = found[1].as_str().unwrap();
    assert_eq!(tried(&browser, &html, address, &format!("{hidden} return hidden();")), json!([name]));
}

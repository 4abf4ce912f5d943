// The state of the page (hidden, chosen, sorted, opened) stands in the address behind `#`, so that a link shows the same. A section's name may stand first:
// `#scoreboard&arms=-d-sync&sort=-scoreboard.time`. Only parts of the page are looked for, so that any other address does nothing.
const switches = [...document.querySelectorAll(".choice input")].map((input) => {
  const [, figure, kind] = input.name.match(/^(.*)-([a-z]+)$/);
  return { input, kind, value: `${figure}.${wordsOf(input.labels[0])}` };
});
const folds = [...document.querySelectorAll("details[id]")];
const themes = ["light", "dark"].map((name) => [name, document.getElementById(`theme-${name}`)]);

const partsOfAddress = () => {
  const [first, ...rest] = location.hash.slice(1).split("&");
  const settings = new URLSearchParams([first, ...rest].filter((part) => part.includes("=")).join("&"));
  let place = first.includes("=") ? "" : first;
  try {
    place = decodeURIComponent(place);
  } catch {
    // Not encoded: taken as it is.
  }
  return { place: place === "" ? null : document.getElementById(place), settings };
};
const settingsOfPage = () => {
  const settings = new URLSearchParams();
  for (const arm of arms.values()) if (arm.hidden) settings.append("arms", `-${arm.name}`);
  for (const { input, kind, value } of switches) if (input.checked && !input.defaultChecked) settings.append(kind, value);
  for (const table of sortables) if (table.by) settings.append("sort", `${table.by.falls ? "-" : ""}${table.name}.${table.by.column}`);
  for (const fold of folds) if (fold.open) settings.append("open", fold.id);
  for (const [name, input] of themes) if (input.checked) settings.append("theme", name);
  return settings;
};
const write = (address) => {
  // A frame without an address of its own may not change it; the page works without.
  try {
    history.replaceState({ view: true }, "", address);
  } catch {}
};
function remember() {
  const { place } = partsOfAddress();
  const parts = [place ? encodeURIComponent(place.id) : "", settingsOfPage().toString()].filter((part) => part !== "");
  write(parts.length > 0 ? `#${parts.join("&")}` : location.pathname + location.search);
}
const show = (settings) => {
  const asked = (key) => new Set(settings.getAll(key));
  const hidden = asked("arms");
  for (const arm of arms.values()) setHidden(arm, hidden.has(`-${arm.name}`));
  countHidden();
  for (const { input } of switches) if (input.defaultChecked) input.checked = true;
  for (const { input, kind, value } of switches) if (asked(kind).has(value)) input.checked = true;
  const sorts = asked("sort");
  for (const table of sortables) {
    const way = (falls) => table.columns.find((column) => sorts.has(`${falls ? "-" : ""}${table.name}.${column}`));
    const [rising, falling] = [way(false), way(true)];
    table.sort(rising ?? falling, rising === undefined);
  }
  const open = asked("open");
  for (const fold of folds) fold.open = open.has(fold.id);
  document.getElementById("theme-system").checked = true;
  for (const [name, input] of themes) if (asked("theme").has(name)) input.checked = true;
};
const unfold = (place) => {
  const fold = place?.closest("details");
  if (fold) fold.open = true;
};
const go = (place) => {
  unfold(place);
  place?.scrollIntoView();
};
const restore = () => {
  const { place, settings } = partsOfAddress();
  show(settings);
  // The browser finds a place by itself where nothing follows its name.
  if (place && (location.hash.includes("&") || place.closest("details"))) go(place);
};
addEventListener("hashchange", () => {
  const { place, settings } = partsOfAddress();
  // A link to a section that was followed now, not an entry of the history: the view stays.
  if (history.state?.view !== true && [...settings].length === 0) {
    if (place?.closest("details")) go(place);
    remember();
  } else {
    restore();
    write(location.href);
  }
});
addEventListener("change", (event) => {
  if (event.target.matches(".choice input, .theme input")) remember();
});
for (const fold of folds) fold.addEventListener("toggle", remember);
restore();
write(location.href);
// A browser may fill in what was chosen before the page was loaded again. A link that was followed before this event has an address without
// the view, and an event of its own.
addEventListener("pageshow", () => {
  if (history.state?.view !== true) return;
  const { place, settings } = partsOfAddress();
  show(settings);
  // That its condition is open may not stand in the address yet.
  unfold(place);
});

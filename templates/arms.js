// An arm is hidden, shown or set off in all charts, legends and tables at once. Its class `arm-N` tells which arm a part belongs to (the last of
// them: styles come again after the twenty-fourth arm), and where a part has no class, its name does.
const bar = document.getElementById("arms");
const arms = new Map();
const owners = new WeakMap();
const armOf = (classes) => [...(classes ?? "").matchAll(/(?:^|\s)(arm-\d+)(?=\s|$)/g)].at(-1)?.[1];
for (const item of bar?.querySelectorAll("li") ?? []) {
  arms.set(armOf(item.dataset.style), { name: item.textContent.trim(), hidden: false, parts: [], shapes: [], buttons: [] });
}
const named = (name) => [...arms.values()].find((arm) => arm.name === name.trim());
const own = (arm, part, kinds) => {
  if (!arm || !part) return;
  kinds.forEach((kind) => arm[kind].push(part));
  owners.set(part, arm);
};
const ofClass = (element) => arms.get(armOf(element.getAttribute("class")));
for (const group of document.querySelectorAll("svg.chart g[class*='arm-']")) own(ofClass(group), group, ["parts", "shapes"]);
// A map names the winner of all arms, whichever of them are shown.
for (const group of document.querySelectorAll("svg.map g[class*='arm-']")) own(ofClass(group), group, ["shapes"]);
for (const name of document.querySelectorAll("tbody th .arm")) own(ofClass(name), name.closest("tr"), ["parts"]);
for (const name of document.querySelectorAll(".verdicts .arm")) own(ofClass(name), name.closest("li"), ["parts"]);
for (const name of document.querySelectorAll("figcaption .arm")) own(ofClass(name), name.closest("figure"), ["parts"]);
for (const part of document.querySelectorAll("[data-of]")) own(named(part.dataset.of), part, part instanceof SVGElement ? ["parts", "shapes"] : ["parts"]);
for (const table of document.querySelectorAll("table.data")) {
  const column = [...table.tHead.rows[0].cells].findIndex((head) => head.textContent === "arm");
  if (column !== -1) for (const row of table.tBodies[0].rows) own(named(row.cells[column].textContent), row, ["parts"]);
}

const setHidden = (arm, hidden) => {
  if (arm.hidden === hidden) return;
  arm.hidden = hidden;
  arm.parts.forEach((part) => part.toggleAttribute("hidden", hidden));
  arm.buttons.forEach((button) => button.setAttribute("aria-pressed", String(!hidden)));
};
const countHidden = () => {
  if (!bar) return;
  const hidden = [...arms.values()].filter((arm) => arm.hidden).length;
  const text = hidden === 0 ? "" : `${hidden} of ${arms.size} hidden`;
  const said = bar.querySelector("output");
  if (said.textContent !== text) said.textContent = text;
  bar.querySelector(":scope > button").hidden = hidden === 0;
};
const changeHidden = (hides) => {
  for (const arm of arms.values()) setHidden(arm, hides(arm));
  countHidden();
  remember();
};

// Others fade while the pointer or the keyboard is on an arm.
let lit;
const light = (arm) => {
  const next = arm?.hidden ? undefined : arm;
  if (next === lit) return;
  for (const other of arms.values()) {
    const fades = next !== undefined && other !== next;
    for (const shape of other.shapes) shape.classList.toggle("faded", fades);
  }
  lit = next;
};
const ownerOf = (element) => {
  for (let at = element; at; at = at.parentNode) if (owners.has(at)) return owners.get(at);
};
document.addEventListener("pointerover", (event) => {
  // A finger leaves no place; and curves, of which most are copies, look for the nearest one themselves.
  if (event.pointerType !== "touch" && !event.target.closest("svg.curves")) light(ownerOf(event.target));
});
document.documentElement.addEventListener("pointerleave", () => light(undefined));
document.addEventListener("focusin", (event) => {
  if (event.target.matches(":focus-visible")) light(ownerOf(event.target));
});
document.addEventListener("focusout", () => light(undefined));

// Press an arm in any legend to hide it and to show it again.
for (const item of document.querySelectorAll(".legend.arms li")) {
  const arm = arms.get(armOf(item.dataset.style));
  if (!arm) continue;
  const button = document.createElement("button");
  button.type = "button";
  button.title = "Hide or show on the whole page; with Shift, show this arm alone";
  button.setAttribute("aria-pressed", "true");
  button.append(...item.childNodes);
  item.append(button);
  arm.buttons.push(button);
  own(arm, item, ["shapes"]);
  button.addEventListener("click", (event) => {
    changeHidden(event.shiftKey ? (other) => other !== arm : (other) => (other === arm ? !arm.hidden : other.hidden));
    light(arm);
  });
}
if (bar) {
  bar.hidden = false;
  bar.querySelector(":scope > button").addEventListener("click", () => {
    changeHidden(() => false);
    bar.querySelector("li button").focus();
  });
}

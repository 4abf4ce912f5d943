"use strict";
// All of this is comfort: every card is on the page without it.
const cards = [...document.querySelectorAll(".card")];
const [words, recipe, found] = ["words", "recipe", "found"].map((id) => document.getElementById(id));
const texts = cards.map((card) => card.querySelector(".words").textContent.toLowerCase());
const choose = () => {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  cards.forEach((card, place) => {
    const fits = (recipe.value === "" || card.dataset.recipe === recipe.value) && wanted.every((word) => texts[place].includes(word));
    card.hidden = !fits;
    shown += fits;
  });
  found.textContent = shown === cards.length ? "" : `${shown} of ${cards.length}`;
};
words.addEventListener("input", choose);
recipe.addEventListener("change", choose);
document.querySelector(".find").hidden = false;

// SPDX-License-Identifier: Apache-2.0
// Completion of the filter (an ARIA combobox), and a word when newer runs have come. The page works without it.
"use strict";
const box = document.getElementById("q");
const list = document.getElementById("proposals");
let proposals = [];
let chosen = -1;
let asked = 0;

function close() {
  proposals = [];
  chosen = -1;
  list.hidden = true;
  list.replaceChildren();
  box.setAttribute("aria-expanded", "false");
  box.removeAttribute("aria-activedescendant");
}

function choose(number) {
  chosen = number;
  [...list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === number)));
  if (number < 0) {
    box.removeAttribute("aria-activedescendant");
    return;
  }
  box.setAttribute("aria-activedescendant", list.children[number].id);
  list.children[number].scrollIntoView({block: "nearest"});
}

function take(number) {
  const {text, start, end} = proposals[number];
  const rest = box.value.slice(end);
  box.value = box.value.slice(0, start) + text + rest.trimStart();
  box.setSelectionRange(start + text.length, start + text.length);
  close();
  if (text.endsWith(":")) offer();
}

function show(found) {
  proposals = found;
  list.replaceChildren(...found.map((proposal, number) => {
    const item = document.createElement("li");
    item.id = `proposal-${number}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", "false");
    const word = document.createElement("span");
    word.textContent = proposal.text;
    const help = document.createElement("small");
    help.textContent = proposal.help;
    item.append(word, help);
    item.addEventListener("mousedown", event => { event.preventDefault(); take(number); });
    return item;
  }));
  list.hidden = !found.length;
  box.setAttribute("aria-expanded", String(Boolean(found.length)));
  choose(-1);
}

async function offer() {
  const mine = ++asked;
  close(); // what was proposed is about what stood there before
  const query = new URLSearchParams({q: box.value, at: String(box.selectionStart)});
  try {
    const answer = await fetch(`/complete?${query}`);
    if (mine === asked && document.activeElement === box) show(answer.ok ? await answer.json() : []);
  } catch {
    if (mine === asked) close();
  }
}

box.addEventListener("input", offer);
box.addEventListener("blur", () => { asked++; close(); });
box.addEventListener("keydown", event => {
  if (event.key === "Escape" && !list.hidden) {
    event.preventDefault();
    asked++;
    close();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    if (list.hidden) {
      offer();
    } else {
      const step = event.key === "ArrowDown" ? 1 : -1;
      choose((chosen + step + proposals.length + (chosen < 0 && step < 0 ? 1 : 0)) % proposals.length);
    }
  } else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) {
    event.preventDefault();
    asked++;
    take(chosen);
  }
});

const runs = document.getElementById("runs");
const newer = document.getElementById("newer");
if (!new URLSearchParams(location.search).has("after")) {
  const shown = runs ? runs.dataset.newest : "";
  newer.querySelector("a").href = location.href;
  setInterval(async () => {
    if (document.hidden || !newer.hidden) return;
    try {
      const answer = await fetch(`/newest?${new URLSearchParams({q: new URLSearchParams(location.search).get("q") || ""})}`);
      const {trace} = await answer.json();
      newer.hidden = !trace || trace === shown;
    } catch { /* the server is away; the next question finds it, or does not */ }
  }, 3000);
}

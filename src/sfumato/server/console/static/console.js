"use strict";
// Little script: colours and completion in the editor, the price while typing, copying. Without it everything works.
(() => {
  const KEYWORDS = ("select from where group by having order limit as and or not in between like is null case when then "
    + "else end join left on using with distinct count sum avg min max variance stddev asc desc date true false cast "
    + "coalesce round extract interval union all values exists filter over").split(" ");
  const area = document.getElementById("sql");

  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
  if (!area) return;

  const form = area.form;
  const paint = form.querySelector(".paint");
  const list = document.getElementById("words");
  const price = document.getElementById("price");
  const names = (area.dataset.words || "").split(" ").filter(Boolean);
  const known = new Set(names);
  const tables = new Set((area.dataset.tables || "").split(" "));
  let wrong = area.dataset.line ? { line: +area.dataset.line, column: +area.dataset.column } : null;

  // --- colours
  const TOKENS = /(--[^\n]*)|('(?:[^']|'')*'?)|("(?:[^"]|"")*"?)|(\d+(?:\.\d+)?)|([A-Za-z_][\w]*)|(\s+)|(.)/g;
  function offset(place) {
    const lines = area.value.split("\n");
    return lines.slice(0, place.line - 1).reduce((sum, line) => sum + line.length + 1, 0) + place.column - 1;
  }
  function colour() {
    const at = wrong ? offset(wrong) : -1;
    paint.replaceChildren();
    for (const found of area.value.matchAll(TOKENS)) {
      const [text, comment, string, quoted, number, word] = found;
      const part = document.createElement("span");
      part.textContent = text;
      if (comment) part.className = "comment";
      else if (string) part.className = "text";
      else if (number) part.className = "figure";
      else if (word && KEYWORDS.includes(word.toLowerCase()) && !known.has(word.toLowerCase())) part.className = "keyword";
      else if (quoted || (word && known.has(word.toLowerCase()))) part.className = "name";
      if (at >= found.index && at < found.index + text.length) part.classList.add("wrong");
      paint.append(part);
    }
    paint.append("\n");
    paint.scrollTop = area.scrollTop;
    form.querySelector(".editor").classList.toggle("painted", area.value !== "");
  }

  // --- completion
  let choices = [];
  let chosen = 0;
  function typedWord() {
    const before = area.value.slice(0, area.selectionStart);
    return (before.match(/[A-Za-z_][\w]*$/) || [""])[0];
  }
  function hide() { list.hidden = true; choices = []; area.removeAttribute("aria-activedescendant"); }
  function offer() {
    const word = typedWord().toLowerCase();
    const all = [...names, ...KEYWORDS.map((one) => one.toUpperCase())];
    choices = word ? all.filter((one) => one.toLowerCase().startsWith(word) && one.toLowerCase() !== word) : [];
    const wanted = /\b(from|join)\s+\w*$/i.test(area.value.slice(0, area.selectionStart));
    const rank = (one) => (tables.has(one) === wanted ? 0 : 100) + (known.has(one) ? 0 : 50) + one.length;
    choices = choices.sort((one, other) => rank(one) - rank(other)).slice(0, 8);
    if (!choices.length) return hide();
    chosen = 0;
    list.replaceChildren(...choices.map((one, number) => {
      const item = document.createElement("li");
      item.id = "word-" + number;
      item.setAttribute("role", "option");
      item.textContent = one;
      item.addEventListener("mousedown", (event) => { event.preventDefault(); take(number); });
      return item;
    }));
    const lines = area.value.slice(0, area.selectionStart).split("\n");
    list.style.top = Math.min(24 + lines.length * 24, area.offsetHeight) + "px";
    list.style.left = Math.min(16 + lines.at(-1).length * 9, Math.max(0, area.offsetWidth - 200)) + "px";
    list.hidden = false;
    mark();
  }
  function mark() {
    [...list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === chosen)));
    area.setAttribute("aria-activedescendant", "word-" + chosen);
  }
  function insert(text, start, end) {
    area.setRangeText(text, start, end, "end");
    area.dispatchEvent(new Event("input"));
    area.focus();
  }
  function take(number) {
    const word = typedWord();
    insert(choices[number], area.selectionStart - word.length, area.selectionStart);
    hide();
  }
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); return; }
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : choices.length - 1)) % choices.length;
      mark();
    } else if (event.key === "Tab" || event.key === "Enter") { event.preventDefault(); take(chosen); }
    else if (event.key === "Escape") { event.preventDefault(); hide(); }
  });
  area.addEventListener("blur", hide);
  area.addEventListener("scroll", () => { paint.scrollTop = area.scrollTop; });
  for (const button of document.querySelectorAll("[data-insert]")) {
    button.addEventListener("click", () => insert(button.dataset.insert, area.selectionStart, area.selectionEnd));
  }

  // --- the price while typing
  let waiting = 0;
  let latest = 0;
  async function quote() {
    const sql = area.value.trim();
    if (!sql) { price.textContent = ""; return; }
    const question = { sql: area.value };
    const margin = form.elements.margin.value.trim(), share = form.elements.share.value.trim();
    if (form.elements.by.value === "margin" && margin) question.within = { [form.elements.column.value.trim()]: margin };
    else if (form.elements.by.value === "share" && share) question.share = share;
    else if (form.elements.epsilon.value.trim()) question.epsilon = form.elements.epsilon.value.trim();
    const household = form.elements.household.value.trim();
    if (household) question.household = household;
    const number = ++latest;
    let reply, said;
    try {
      reply = await fetch(`${document.documentElement.dataset.root}/price`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) });
      said = await reply.json();
    } catch { return; }
    if (number !== latest) return;
    if (reply.ok) {
      wrong = null;
      const words = document.createElement("strong");
      words.textContent = said.price;
      price.className = "";
      price.replaceChildren(words, said.buys, said.together ? " · " + said.together : "");
      document.getElementById("columns").replaceChildren(...Object.keys(said.margins).map((name) => new Option(name)));
    } else if (reply.status === 401) {
      location.reload();
    } else {
      wrong = said.position || null;
      price.className = "wrong";
      price.textContent = said.message + " " + said.remedy;
    }
    colour();
  }
  function soon() { clearTimeout(waiting); waiting = setTimeout(quote, 300); }
  area.addEventListener("input", () => { wrong = null; colour(); offer(); soon(); });
  for (const name of ["epsilon", "margin", "column", "share"]) {
    form.elements[name].addEventListener("input", () => {
      form.elements.by.value = name === "column" ? "margin" : name;
      soon();
    });
  }
  form.elements.household.addEventListener("input", soon);
  form.addEventListener("change", soon);
  form.addEventListener("submit", () => { form.querySelector(".primary").setAttribute("aria-busy", "true"); });
  colour();
  if (area.value && !document.getElementById("refusal")) quote();
  if (wrong) { area.focus(); area.setSelectionRange(offset(wrong), offset(wrong)); }
  else if (location.hash === "#answer") { const answer = document.getElementById("answer"); if (answer) answer.focus({ preventScroll: true }); }
})();

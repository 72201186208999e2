// Filters above a table of pages: a choice for each column that repeats its values, and
// words. Without JavaScript the whole table is there. The address keeps the filters.
"use strict";

const NARROW = matchMedia("(max-width: 46em)");
const FIRST = 100; // rows of a table on a narrow screen, until all are asked for

const CHOICES = ["Severity", "Category", "Trainer", "Group"];

function filter(box) {
  const heads = [...box.querySelectorAll("thead th")].map((head) => head.textContent);
  const rows = [...box.querySelectorAll("tbody tr")].map((row) => ({
    row,
    cells: [...row.cells].map((cell) => cell.textContent),
    words: row.textContent.toLowerCase(),
  }));
  const form = document.createElement("form");
  const wanted = new URLSearchParams(location.hash.slice(1));
  const label = (name, field) => {
    const outer = document.createElement("label");
    field.name = name.toLowerCase();
    outer.append(name, field);
    form.append(outer);
  };
  const words = document.createElement("input");
  words.type = "search";
  words.value = wanted.get("words") ?? "";
  label("Words", words);
  const columns = heads.flatMap((name, column) =>
    CHOICES.includes(name) ? [{ name, column, select: document.createElement("select") }] : [],
  );
  for (const { name, column, select } of columns) {
    const values = new Set(rows.flatMap(({ cells }) => cells[column].split(", ")));
    values.delete("all");
    select.append(new Option("all", ""), ...[...values].map((value) => new Option(value)));
    label(name, select);
    select.value = wanted.get(select.name) ?? "";
    if (select.selectedIndex < 0) select.value = "";
  }
  const count = document.createElement("output");
  const every = document.createElement("button");
  every.type = "button";
  every.textContent = "Show all";
  every.hidden = true;
  form.append(count, every);

  let most = NARROW.matches ? FIRST : rows.length;
  const apply = () => {
    const parts = words.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const each of rows) {
      const fits = columns.every(({ column, select }) => {
        const values = each.cells[column].split(", ");
        return !select.value || values.includes("all") || values.includes(select.value);
      });
      const found = fits && parts.every((part) => each.words.includes(part));
      each.row.hidden = !found || shown >= most;
      shown += found;
    }
    every.hidden = shown <= most;
    count.value = `${shown} of ${rows.length}`;
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    apply();
    const set = [...new FormData(form)].filter(([, value]) => value);
    history.replaceState(null, "", `#${new URLSearchParams(set)}`);
  });
  const limit = (rowsShown) => {
    most = rowsShown;
    apply();
  };
  every.addEventListener("click", () => limit(rows.length));
  NARROW.addEventListener("change", () => limit(NARROW.matches ? FIRST : rows.length));
  box.prepend(form);
  apply();
}

document.querySelectorAll(".filtered").forEach(filter);

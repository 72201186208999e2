"use strict";
// Tables are sorted by a click on a column, text can be copied.

const number = (text) => {
  const found = text.replace(/,/g, "").match(/^[-+]?\d+(\.\d+)?/);
  return found ? Number(found[0]) : NaN;
};

const compare = (a, b) => {
  const [x, y] = [number(a), number(b)];
  if (!isNaN(x) && !isNaN(y)) return x - y;
  if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;
  return a.localeCompare(b);
};

const sort = (table, column, heads) => {
  const head = heads[column];
  const down = head.getAttribute("aria-sort") === "ascending";
  heads.forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const cell = (row) => row.cells[column].textContent.trim();
  const rows = [...body.rows].sort((a, b) => compare(cell(a), cell(b)));
  body.append(...(down ? rows.reverse() : rows));
};

document.querySelectorAll("table").forEach((table) => {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    button.title = "sort by this column";
    button.addEventListener("click", () => sort(table, column, heads));
    head.replaceChildren(button);
  });
});

const copy = async (text) => {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea"); // where the page is no secure context
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
};

document.querySelectorAll("pre.copy").forEach((pre) => {
  const button = document.createElement("button");
  const label = `Copy the ${pre.getAttribute("aria-label")}`;
  button.textContent = label;
  button.className = "copy";
  button.addEventListener("click", async () => {
    await copy(pre.textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 2000);
  });
  (pre.closest("details") ?? pre).before(button);
});

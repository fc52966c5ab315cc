// The list of tests: search, filter, sort.

function listTests() {
  const list = find('#tests .list');
  const tools = find('#tests .tools');
  if (!list || !tools) return;
  const body = list.tBodies[0];
  const rows = findAll('tr[data-test]', body).map((row, order) => ({
    row,
    order,
    section: find(`section.test[data-test="${CSS.escape(row.dataset.test)}"]`),
    text: row.textContent.toLowerCase(),
    name: row.cells[0].textContent.trim(),
    standing: row.dataset.standing,
    difference: Number(row.dataset.difference ?? NaN),
    percent: Number(row.dataset.percent ?? NaN),
  }));
  if (rows.length < 2) return;
  const shown = element('span', { class: 'matches', 'aria-live': 'polite' });
  const search = element('input', {
    type: 'search', 'aria-label': 'Search tests', placeholder: 'Search tests', autocomplete: 'off', oninput: apply,
  });
  let standing = 'all';
  const standings = choice('Show', standingOptions(rows), standing, (value) => { standing = value; apply(); });
  const order = element('select', { 'aria-label': 'Sort by', onchange: sort },
    ...[['order', 'standing, worst first'], ['name', 'name'], ['difference', 'difference'], ['percent', 'percent']]
      .map(([value, text]) => element('option', { value }, text)));
  standings.hidden = standings.children.length < 3;
  tools.append(search, shown, standings, element('label', { class: 'sort' }, 'Sort by ', order));
  tools.hidden = false;
  const box = boxed(list, rows.length);
  let matching = new Set();
  let waiting = 0;
  // The layout of many hundred rows takes long: the box gets more of them when it is scrolled.
  let most = CHUNK;
  box?.addEventListener('scroll', () => {
    if (rows.length > most && box.scrollTop + 2 * box.clientHeight > box.scrollHeight) show(most + CHUNK);
  });
  addEventListener('beforeprint', () => show(Infinity));
  apply();
  clearFilter = () => { search.value = ''; standings.firstChild.click(); showSections(); };

  function apply() {
    box?.scrollTo(0, 0);
    show(CHUNK);
  }

  function show(limit) {
    most = box ? limit : Infinity;
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    matching = new Set();
    for (const one of rows) {
      const matches = (standing === 'all' || one.standing === standing) && words.every((word) => one.text.includes(word));
      one.row.hidden = !matches || count >= most;
      if (matches) { count += 1; matching.add(one.section); }
    }
    // The list answers at once; the sections below follow when typing stops.
    clearTimeout(waiting);
    waiting = setTimeout(showSections, 150);
    shown.textContent = count === rows.length ? `${rows.length} rows` : `${count} of ${rows.length}`;
  }

  // A test can have several rows, one per candidate.
  function showSections() {
    for (const { section } of rows) if (section) section.hidden = !matching.has(section);
  }

  function sort() {
    const key = order.value;
    const compare = {
      order: () => 0,
      name: (a, b) => a.name.localeCompare(b.name),
      difference: (a, b) => descending(a.difference, b.difference),
      percent: (a, b) => descending(a.percent, b.percent),
    }[key];
    rows.sort((a, b) => compare(a, b) || a.order - b.order);
    body.append(...rows.map(({ row }) => row));
    apply();
  }
}

const CHUNK = 100;
let clearFilter = () => {};

// Rows without a figure come last.
function descending(a, b) {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
  return b - a;
}

function standingOptions(rows) {
  const counts = new Map();
  for (const { standing } of rows) counts.set(standing, (counts.get(standing) ?? 0) + 1);
  const words = (standing) => standing.replaceAll('-', ' ');
  return [['all', 'all'], ...[...counts].map(([standing, count]) => [standing, element('b', {}, String(count)), ` ${words(standing)}`])];
}

// A long list scrolls by itself, so that the first test is near.
function boxed(list, count) {
  if (count <= 15) return null;
  const box = element('div', { class: 'scroll box', tabindex: 0, role: 'region', 'aria-label': 'List of tests' });
  const host = list.parentElement.matches('.scroll') ? list.parentElement : list;
  host.replaceWith(box);
  box.append(list);
  return box;
}

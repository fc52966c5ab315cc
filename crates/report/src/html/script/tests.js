// What is drawn of a test.

const sectionOf = (test) => document.getElementById(test.id);

// Gives each point its label. A test may have a million points, so this waits until it is looked at.
function unpack(test) {
  if (!test.occurrences) return;
  const [names, numbers] = [summed(test.labels), summed(test.occurrences)];
  test.occurrences = null;
  test.labels = Array.from(names, (name, index) => test.names[name] + (numbers[index] > 1 ? ` #${numbers[index]}` : ''));
}

// The content of a folded section is text: many elements take long, also where nobody sees them.
function make(section) {
  const content = find('noscript', section);
  content?.replaceWith(document.createRange().createContextualFragment(content.textContent));
}

function drawTest(test) {
  const section = sectionOf(test);
  if (!section || test.isDrawn) return;
  make(section);
  test.isDrawn = true;
  unpack(test);
  attempt(() => linkRows(test, section));
  const charts = find('.charts', section);
  if (charts) attempt(() => drawCharts(test, charts));
  for (const why of findAll('.why[data-why]', section)) {
    const flame = test.flames?.[Number(why.dataset.why)];
    const host = find('.flame', why);
    if (flame && host && flame.parents.length > 1) attempt(() => drawFlame(test, flame, host));
  }
  const treemap = find('.treemap', section);
  if (treemap && test.treemap?.boxes.length) attempt(() => drawTreemap(test, test.treemap, treemap));
  const dots = find('.dots', section);
  if (dots && test.dots?.length) attempt(() => drawDots(test, dots));
}

// Makes the label of each row a link to that row.
function linkRows(test, section) {
  for (const row of findAll('tr[data-row]', section)) {
    const index = indexOfRow(test, Number(row.dataset.row));
    const text = [...(find('th', row)?.childNodes ?? [])].find((node) => node.nodeType === 3 && node.data.trim());
    if (index < 0 || !text) continue;
    const href = address(test, changedMetric(test, index) ?? mainMetric(test), index);
    text.replaceWith(element('a', { href }, clean(text.data.trim(), 200)), ' ');
  }
}

const indexOfRow = (test, row) => (test.rows ? test.rows.indexOf(row) : row < (test.labels?.length ?? 0) ? row : -1);
const mainMetric = (test) => families(test)[0]?.usual.at(-1) ?? 'time';

function changedMetric(test, index, family) {
  return test.changed?.find((one) => one[0] === index && (!family || familyOf(one[1]) === family))?.[1];
}

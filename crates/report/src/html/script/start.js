// Printing, and the start.

function preparePrint() {
  const opened = [];
  printing = true;
  document.documentElement.dataset.print = '';
  for (const test of report.tests) {
    const details = sectionOf(test)?.querySelector('details');
    if (!details || !(test.changed?.length || details.open)) continue;
    if (!details.open) { details.open = true; opened.push(details); }
    drawTest(test);
  }
  repaintAll();
  addEventListener('afterprint', () => {
    printing = false;
    delete document.documentElement.dataset.print;
    for (const details of opened) details.open = false;
    repaintAll();
  }, { once: true });
}

async function readData() {
  if (typeof DecompressionStream === 'undefined') throw new Error('this browser cannot decompress data');
  const text = atob(find('#data').textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  const data = await new Response(stream).json().catch(() => { throw new Error('the data are damaged'); });
  if (data.version !== 1) throw new Error(`the data have version ${data.version}, this script reads version 1`);
  return data;
}

async function start() {
  report = await readData();
  const byId = new Map(report.tests.map((test) => [test.id, test]));
  // "toggle" does not bubble, so it is caught on its way down.
  document.addEventListener('toggle', (event) => {
    const section = event.target.open && event.target.parentElement?.matches('section.test') && event.target.parentElement;
    if (section && byId.has(section.id)) drawTest(byId.get(section.id));
  }, true);
  for (const test of report.tests) if (sectionOf(test)?.querySelector('details')?.open) drawTest(test);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaintAll);
  addEventListener('beforeprint', () => attempt(preparePrint));
  addEventListener('hashchange', () => attempt(follow));
  attempt(follow);
  document.documentElement.dataset.drawn = '';
}

attempt(listTests);
document.documentElement.dataset.script = '';
start().catch((error) => {
  findAll('section.test').forEach(make);
  failed(error);
});

// Colours and canvases.

let report;          // the data
let palette = null;  // CSS variables, read again when the theme changes
let printing = false;

function colour(name) {
  palette ??= { style: getComputedStyle(document.documentElement), known: new Map() };
  if (!palette.known.has(name)) palette.known.set(name, palette.style.getPropertyValue(`--${name}`).trim());
  return palette.known.get(name);
}

// A lone revision takes the colour of a candidate: grey is for what others are compared with.
const refClass = (ref) => `r${report.refs.length === 1 ? 1 : ref % 6}`;
const refColour = (ref) => colour(refClass(ref));

// The baseline is always dashed, the first candidate solid, others differ again.
function dashes(ref) {
  if (report.refs.length === 1) return [];
  if (ref === report.baseline) return [5, 3];
  const order = ref - (ref > report.baseline ? 1 : 0);
  return [[], [2, 2], [9, 3], [9, 3, 2, 3]][order % 4];
}

const drawings = new Map();  // canvas → how to paint it
const PRINTED_WIDTH = 700;

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) drawings.get(target)?.later();
});

// A canvas that is painted again on a new size, theme, or on request.
function drawing(host, attributes, heightFor, paint) {
  const canvas = element('canvas', { tabindex: 0, role: 'img', ...attributes });
  host.append(canvas);
  const pen = canvas.getContext('2d');
  let waiting = false;
  const now = () => {
    waiting = false;
    const width = printing ? PRINTED_WIDTH : host.clientWidth;
    if (!width) return;
    const height = heightFor(width);
    const density = printing ? 2 : min(3, window.devicePixelRatio || 1);
    const size = [round(width * density), round(height * density)];
    if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    canvas.style.height = `${height}px`;
    pen.setTransform(density, 0, 0, density, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = '12px system-ui, sans-serif';
    attempt(() => paint(pen, width, height));
  };
  const later = () => {
    if (!waiting) requestAnimationFrame(now);
    waiting = true;
  };
  drawings.set(host, { now, later });
  resized.observe(host);
  return { canvas, now, later };
}

function repaintAll() {
  palette = null;
  for (const { now } of drawings.values()) now();
}

// Shortens text to a width, with an ellipsis.
function fit(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let length = text.length - 1;
  while (length > 0 && pen.measureText(text.slice(0, length) + '…').width > width) length -= 1;
  return length > 0 ? text.slice(0, length) + '…' : '';
}

// Breaks a label into two lines at most.
function twoLines(pen, text, width) {
  if (pen.measureText(text).width <= width) return [text];
  const words = text.split(' ');
  let first = '';
  while (words.length && pen.measureText(`${first} ${words[0]}`.trim()).width <= width) {
    first = `${first} ${words.shift()}`.trim();
  }
  return first ? [first, fit(pen, words.join(' '), width)] : [fit(pen, text, width)];
}

function inset(event, node) {
  const box = node.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

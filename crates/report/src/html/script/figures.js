// Figures with their units.

const UNITS = {
  bytes: [1024, 'B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'],
  nanoseconds: [1000, 'ns', 'µs', 'ms', 's'],
};

// Three digits in the largest unit that fits; counts in full.
function figure(value, unit) {
  if (!Number.isFinite(value)) return '–';
  const [factor, ...names] = UNITS[unit] ?? [Infinity, ''];
  let size = abs(value);
  let name = 0;
  while (size >= (name ? 999.5 : factor) && name + 1 < names.length) {
    size /= factor;
    name += 1;
  }
  const digits = (name === 0 && Number.isInteger(size)) || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  const number = size.toLocaleString('en', { useGrouping: !UNITS[unit], minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${value < 0 ? '-' : ''}${number} ${names[name]}`.trim();
}

// A difference has its sign twice: as a mark and before the number.
function difference(value, unit) {
  if (Number.isNaN(value)) return '–';
  if (value === 0) return '=';
  return value > 0 ? `▲ +${figure(value, unit)}` : `▼ ${figure(value, unit)}`;
}

const direction = (value) => (value > 0 ? 'up' : value < 0 ? 'down' : '');
const percent = (part, whole) => (whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : '–');
const sum = (values) => values.reduce((total, value) => total + value, 0);

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// Round positions between two values: powers of two for bytes, else 1, 2 and 5 times ten.
function ticks(low, high, unit, most) {
  const least = (high - low) / most;
  let step;
  if (unit === 'bytes') {
    step = 2 ** max(0, ceil(Math.log2(least)));
  } else {
    const ten = 10 ** floor(Math.log10(least));
    step = [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= least);
    if (unit === 'count') step = max(1, step);
  }
  const found = [];
  for (let at = ceil(low / step) * step; at <= high && found.length < 50; at += step) found.push(at);
  return found;
}

const tickText = (value, unit) => figure(value, unit).replace(/\.0+(?= )|(\.\d*[1-9])0+(?= )/, '$1');

// Elements and text. Text of a program is never parsed as HTML.

const { min, max, abs, ceil, round, floor } = Math;
const find = (selector, root = document) => root.querySelector(selector);
const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];

// Creates an element. Keys that start with "on" are listeners, all others are attributes.
function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children);
  return node;
}

// Text from a program may hold control characters. Those that reorder text could hide a name.
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

function clean(text, most = 300) {
  const short = text.length > most ? text.slice(0, most - 1) + '…' : text;
  return short.replace(CONTROLS, '\ufffd');
}

function notice(text) {
  let line = find('#notice');
  if (!line) {
    line = element('p', { id: 'notice', role: 'status' });
    find('#top').after(line);
  }
  line.textContent = clean(text, 500);
  line.hidden = !text;
}

function failed(error) {
  console.warn(error);
  notice(`Charts cannot be drawn: ${error?.message ?? error}. The tables are complete.`);
}

// Runs a part of the page so that its failure leaves the other parts alone.
function attempt(part) {
  try {
    return part();
  } catch (error) {
    failed(error);
  }
}

// A listener that runs the action of a key.
function keys(actions) {
  return (event) => {
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action(event);
  };
}

// A row of buttons of which one is pressed.
function choice(label, options, chosen, onchoose) {
  const group = element('div', { class: 'choice', role: 'group', 'aria-label': label });
  const press = (value) => {
    for (const button of group.children) button.setAttribute('aria-pressed', button.value === String(value));
  };
  for (const [value, ...content] of options) {
    group.append(element('button', {
      type: 'button', value, onclick: () => { press(value); onchoose(value); },
    }, ...content));
  }
  press(chosen);
  return group;
}

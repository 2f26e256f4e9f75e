// Markdown to nodes. Whatever the text is, it becomes text: nodes are made one by one and never parsed from HTML, images
// are named and never loaded, and of links those of http, https and mailto remain.
//
// Bounds: kDeepest levels of quotes and lists; a paragraph of more than kLongest characters is shown as it stands.

const kDeepest = 12;
const kLongest = 10_000;

export function element(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === 'class') node.className = value;
    else if (key.startsWith('aria-') || key.startsWith('data-') || key === 'role' || key === 'for') node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children);
  return node;
}

/** Null for what is no link that may be followed. */
export function safeLink(text) {
  try {
    const url = new URL(text);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(target, ...children) {
  const href = safeLink(target);
  if (href === null) return element('span', {}, ...children);
  return element('a', { href, target: '_blank', rel: 'noopener noreferrer nofollow', title: href }, ...children);
}

// -- within a paragraph

const kInline = new RegExp([
  /\\([!-/:-@[-`{-~])/,                                                    // 1: an escape
  /(`+)([^`]|[^`][\s\S]{0,1500}?[^`])\2(?!`)/,                              // 2, 3: code
  /!\[([^\]\n]{0,500})\]\(([^()\s]{0,2000})(?:\s+"[^"\n]{0,500}")?\)/,      // 4, 5: an image
  /\[([^\]\n]{1,1000})\]\(([^()\s]{0,2000})(?:\s+"[^"\n]{0,500}")?\)/,      // 6, 7: a link
  /<(https?:\/\/[^\s<>]{1,2000})>/,                                         // 8: an address in brackets
  /(https?:\/\/[^\s<>()[\]"'`*]{1,2000})/,                                  // 9: one by itself
  /(\*\*|__)(?=\S)([\s\S]{0,1500}?\S)\10/,                                  // 10, 11: strong
  /~~(?=\S)([^~]{0,1500}?\S)~~/,                                            // 12: struck out
  /\*(?=[^\s*])([^*]{0,1500}?[^\s*])\*(?!\*)/,                              // 13: emphasis
  /(?<![\w_])_(?=[^\s_])([^_]{0,1500}?[^\s_])_(?![\w_])/,                   // 14: emphasis
].map(part => part.source).join('|'), 'g');

function inline(text, depth = 0) {
  if (text.length > kLongest || depth > 4) return [text];
  const out = [];
  let from = 0;
  for (const found of text.matchAll(kInline)) {
    if (found.index > from) out.push(...lines(text.slice(from, found.index)));
    from = found.index + found[0].length;
    const deeper = words => inline(words, depth + 1);
    if (found[1] !== undefined) out.push(found[1]);
    else if (found[3] !== undefined) out.push(element('code', {}, found[3].replace(/^ (.*\S.*) $/s, '$1').replace(/\n/g, ' ')));
    else if (found[4] !== undefined) out.push(imageInWords(found[4], found[5]));
    else if (found[6] !== undefined) out.push(link(found[7], ...deeper(found[6])));
    else if (found[8] !== undefined) out.push(link(found[8], found[8]));
    else if (found[9] !== undefined) {
      const address = found[9].replace(/[.,;:!?]+$/, '');
      out.push(link(address, address), found[9].slice(address.length));
    } else if (found[11] !== undefined) out.push(element('strong', {}, ...deeper(found[11])));
    else if (found[12] !== undefined) out.push(element('del', {}, ...deeper(found[12])));
    else if (found[13] !== undefined) out.push(element('em', {}, ...deeper(found[13])));
    else if (found[14] !== undefined) out.push(element('em', {}, ...deeper(found[14])));
  }
  out.push(...lines(text.slice(from)));
  return out;
}

function lines(text) {
  const out = [];
  text.split(/(?: {2,}|\\)?\n/).forEach((line, i) => out.push(...(i > 0 ? [element('br')] : []), line));
  return out;
}

const imageInWords = (words, target) => element('span', { class: 'image-name' }, '🖼 ', link(target, words || 'image'));

// -- blocks

const kFence = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]{0,40})[^`]*$/;
const kItem = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const kRule = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const kHeading = /^ {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$/;
const kTableRule = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const isBlank = line => line.trim() === '';
const opensBlock = line => kFence.test(line) || kItem.test(line) || kRule.test(line) || kHeading.test(line) || /^ {0,3}>/.test(line);

export function codeBlock(language, code) {
  const copy = element('button', { type: 'button', class: 'quiet small' }, 'Copy');
  copy.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(code);
      copy.textContent = 'Copied';
    } catch {
      copy.textContent = 'Not allowed';
    }
    setTimeout(() => { copy.textContent = 'Copy'; }, 1500);
  });
  return element('figure', { class: 'code' }, element('figcaption', {}, element('span', {}, language || 'code'), copy),
    element('pre', { tabIndex: 0 }, element('code', {}, code)));
}

function cells(line) {
  return line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).slice(0, 50).map(cell => cell.trim().replace(/\\\|/g, '|'));
}

/** A list from line `at` on; gives the line behind it. */
function list(all, at, depth, out) {
  const ordered = /\d/.test(all[at].match(kItem)[2]);
  const node = element(ordered ? 'ol' : 'ul');
  if (ordered) node.start = parseInt(all[at].trim(), 10);
  while (at < all.length) {
    const mark = all[at].match(kItem);
    if (!mark || /\d/.test(mark[2]) !== ordered || kRule.test(all[at])) break;
    const indent = mark[0].length;
    const item = [all[at].slice(indent)];
    for (++at; at < all.length; ++at) {
      const spaces = all[at].search(/\S/);
      if (spaces < 0) {
        const next = all[at + 1];
        if (next === undefined || (next.search(/\S/) < 2 && !kItem.test(next))) break;
        item.push('');
      } else if (spaces >= Math.min(indent, 2) && !(spaces < indent && kItem.test(all[at]) && spaces < 2)) {
        item.push(all[at].slice(Math.min(spaces, indent)));
      } else if (opensBlock(all[at]) || isBlank(all[at - 1])) {
        break;
      } else {
        item.push(all[at]);
      }
    }
    const content = blocks(item, depth + 1);
    const alone = content.length > 0 && content[0].tagName === 'P';  // tight: no paragraph around the first words
    node.append(element('li', {}, ...(alone ? [...content[0].childNodes, ...content.slice(1)] : content)));
    while (at < all.length && isBlank(all[at]) && at + 1 < all.length && kItem.test(all[at + 1])) ++at;
  }
  out.push(node);
  return at;
}

function blocks(all, depth = 0) {
  if (depth > kDeepest) return [element('p', {}, all.join('\n'))];
  const out = [];
  let at = 0;
  while (at < all.length) {
    const line = all[at];
    let match;
    if (isBlank(line)) {
      ++at;
    } else if ((match = line.match(kFence))) {
      const close = new RegExp('^ {0,3}' + match[1][0] + '{' + match[1].length + ',}[ \\t]*$');
      const code = [];
      for (++at; at < all.length && !close.test(all[at]); ++at) code.push(all[at]);
      ++at;
      out.push(codeBlock(match[2], code.join('\n')));
    } else if ((match = line.match(kHeading))) {
      out.push(element('h' + Math.min(6, match[1].length + 2), {}, ...inline(match[2])));
      ++at;
    } else if (kRule.test(line)) {
      out.push(element('hr'));
      ++at;
    } else if (/^ {0,3}>/.test(line)) {
      const quoted = [];
      for (; at < all.length && /^ {0,3}>/.test(all[at]); ++at) quoted.push(all[at].replace(/^ {0,3}> ?/, ''));
      out.push(element('blockquote', {}, ...blocks(quoted, depth + 1)));
    } else if (kItem.test(line)) {
      at = list(all, at, depth, out);
    } else if (line.includes('|') && at + 1 < all.length && all[at + 1].includes('-') && kTableRule.test(all[at + 1])) {
      const head = cells(line);
      const table = element('table', {}, element('thead', {}, element('tr', {}, ...head.map(cell => element('th', {}, ...inline(cell))))));
      const body = element('tbody');
      for (at += 2; at < all.length && all[at].includes('|') && !isBlank(all[at]); ++at) {
        body.append(element('tr', {}, ...cells(all[at]).map(cell => element('td', {}, ...inline(cell)))));
      }
      table.append(body);
      out.push(element('div', { class: 'table', tabIndex: 0 }, table));
    } else {
      const words = [line.trimStart()];
      for (++at; at < all.length && !isBlank(all[at]) && !opensBlock(all[at]); ++at) words.push(all[at].trimStart());
      out.push(element('p', {}, ...inline(words.join('\n'))));
    }
  }
  return out;
}

export const renderMarkdown = text => blocks(text.replace(/\r\n?/g, '\n').split('\n'));

/** Where what comes before is whole blocks, whatever follows: behind the last empty line outside of code, lists and quotes. */
function settledLength(text) {
  let settled = 0;
  let at = 0;
  let fence = '';
  let inList = false;
  for (const line of text.split('\n')) {
    const mark = line.match(kFence);
    if (fence) {
      if (mark && line.trim().startsWith(fence) && mark[2] === '') fence = '';
    } else if (mark) {
      fence = mark[1];
    } else if (kItem.test(line) || /^ {0,3}>/.test(line)) {
      inList = true;
    } else if (isBlank(line)) {
      if (!inList) settled = at + line.length + 1;
    } else if (line.search(/\S/) < 2 && (at === 0 || text[at - 2] === '\n')) {
      inList = false;
    }
    at += line.length + 1;
  }
  return Math.min(settled, text.length);
}

/** A text that grows: what is whole is rendered once, the rest at every update. */
export class GrowingMarkdown {
  constructor(host) {
    this.host = host;
    this.settled = 0;
    this.tail = [];
  }

  update(text, whole = false) {
    if (whole) {
      this.host.replaceChildren(...renderMarkdown(text));
      return;
    }
    const rest = text.slice(this.settled);
    const step = settledLength(rest);
    for (const node of this.tail) node.remove();
    if (step > 0) this.host.append(...renderMarkdown(rest.slice(0, step)));
    this.settled += step;
    this.tail = renderMarkdown(rest.slice(step));
    this.host.append(...this.tail);
  }
}

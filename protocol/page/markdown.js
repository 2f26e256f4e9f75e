// Markdown to nodes. Whatever the text is, it becomes text: nodes are made one by one and never parsed from HTML, images
// are named and never loaded, and of links those of http, https and mailto remain.
//
// Bounds: kDeepest levels of quotes and lists; a paragraph of more than kLongest characters is shown as it stands.

import { colorCode, mathNode } from './libraries.js';
import { element } from './element.js';

const kDeepest = 12;
const kLongest = 10_000;
const kMostMathLines = 200;

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
  /\\\((?<math>[\s\S]{1,2000}?)\\\)/,
  /\\\[(?<display>[\s\S]{1,2000}?)\\\]/,
  /\$\$(?<dollars>[^$]{1,2000})\$\$/,
  /(?<![\\$\w])\$(?=[^\s$])(?<dollar>[^$\n]{0,500}?[^\s\\$])\$(?![\w$])/,
  /\\(?<escaped>[!-/:-@[-`{-~])/,
  /(?<ticks>`+)(?<code>[^`]|[^`][\s\S]{0,1500}?[^`])\k<ticks>(?!`)/,
  /!\[(?<imageWords>[^\]\n]{0,500})\]\((?<image>[^()\s]{0,2000})(?:\s+"[^"\n]{0,500}")?\)/,
  /\[(?<linkWords>[^\]\n]{1,1000})\]\((?<link>[^()\s]{0,2000})(?:\s+"[^"\n]{0,500}")?\)/,
  /<(?<bracketed>https?:\/\/[^\s<>]{1,2000})>/,
  /(?<bare>https?:\/\/[^\s<>()[\]"'`*]{1,2000})/,
  /(?<stars>\*\*|__)(?=\S)(?<strong>[\s\S]{0,1500}?\S)\k<stars>/,
  /~~(?=\S)(?<struck>[^~]{0,1500}?\S)~~/,
  /\*(?=[^\s*])(?<starred>[^*]{0,1500}?[^\s*])\*(?!\*)/,
  /(?<![\w_])_(?=[^\s_])(?<underlined>[^_]{0,1500}?[^\s_])_(?![\w_])/,
].map(part => part.source).join('|'), 'g');

function inlineNodes(written, groups, depth) {
  const is = name => groups[name] !== undefined;
  const deeper = words => inline(words, depth + 1);
  const formula = groups.math ?? groups.dollar ?? groups.display ?? groups.dollars;
  if (formula !== undefined) return [mathNode(formula, is('display') || is('dollars'), written)];
  if (is('escaped')) return [groups.escaped];
  if (is('code')) return [element('code', {}, groups.code.replace(/^ (.*\S.*) $/s, '$1').replace(/\n/g, ' '))];
  if (is('image')) return [imageInWords(groups.imageWords, groups.image)];
  if (is('link')) return [link(groups.link, ...deeper(groups.linkWords))];
  if (is('bracketed')) return [link(groups.bracketed, groups.bracketed)];
  if (is('bare')) {
    const address = groups.bare.replace(/[.,;:!?]+$/, '');
    return [link(address, address), groups.bare.slice(address.length)];
  }
  if (is('strong')) return [element('strong', {}, ...deeper(groups.strong))];
  if (is('struck')) return [element('del', {}, ...deeper(groups.struck))];
  return [element('em', {}, ...deeper(groups.starred ?? groups.underlined))];
}

function inline(text, depth = 0) {
  if (text.length > kLongest || depth > 4) return [text];
  const out = [];
  let from = 0;
  for (const found of text.matchAll(kInline)) {
    if (found.index > from) out.push(...lines(text.slice(from, found.index)));
    from = found.index + found[0].length;
    out.push(...inlineNodes(found[0], found.groups, depth));
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

/** `closed`: no more of it will come. */
function codeBlock(language, code, closed) {
  const copy = element('button', { type: 'button', class: 'quiet small' }, 'Copy');
  copy.addEventListener('click', async () => {
    let words = 'Copied.';
    try {
      await navigator.clipboard.writeText(code);
    } catch {
      words = 'The browser does not allow copying.';
    }
    copy.dispatchEvent(new CustomEvent('notify', { bubbles: true, detail: words }));
  });
  const held = element('code', {}, code);
  if (closed) colorCode(held, language, code);
  return element('figure', { class: 'code' }, element('figcaption', {}, element('span', {}, language || 'code'), copy),
    element('pre', { tabIndex: 0 }, held));
}

/** How a formula that begins with this line ends, or null. */
function mathEnd(line) {
  const opening = line.match(/^ {0,3}(\\\[|\$\$)/)?.[1];
  return opening === undefined ? null : opening === '$$' ? '$$' : '\\]';
}

/** The last line of a formula of lines of its own that begins at line `at`; -1: it is none. */
function mathLines(all, at) {
  const end = mathEnd(all[at]);
  if (end === null) return -1;
  for (let i = at; i < all.length && i < at + kMostMathLines; ++i) {
    const line = i === at ? all[i].trimStart().slice(2) : all[i];
    if (line.trimEnd().endsWith(end)) return i;
    if (line.includes(end)) return -1;
  }
  return -1;
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
    let match, last;
    if (isBlank(line)) {
      ++at;
    } else if ((match = line.match(kFence))) {
      const close = new RegExp('^ {0,3}' + match[1][0] + '{' + match[1].length + ',}[ \\t]*$');
      const code = [];
      for (++at; at < all.length && !close.test(all[at]); ++at) code.push(all[at]);
      out.push(codeBlock(match[2], code.join('\n'), at < all.length));
      ++at;
    } else if ((last = mathLines(all, at)) >= 0) {
      const written = all.slice(at, last + 1).join('\n').trim();
      out.push(element('p', {}, mathNode(written.slice(2, -2), true, written)));
      at = last + 1;
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
      for (++at; at < all.length && !isBlank(all[at]) && !opensBlock(all[at]) && mathLines(all, at) < 0; ++at) words.push(all[at].trimStart());
      out.push(element('p', {}, ...inline(words.join('\n'))));
    }
  }
  return out;
}

export const renderMarkdown = text => blocks(text.replace(/\r\n?/g, '\n').split('\n'));

/** Where what comes before is whole blocks, whatever follows: behind the last empty line outside of code, formulas, lists
    and quotes. */
function settledLength(text) {
  let settled = 0;
  let at = 0;
  let fence = '';
  let math = null;  // the end of the formula that a line is in
  let inList = false;
  for (const line of text.split('\n')) {
    const mark = line.match(kFence);
    if (fence) {
      if (mark && line.trim().startsWith(fence) && mark[2] === '') fence = '';
    } else if (mark) {
      fence = mark[1];
    } else if (math) {
      if (line.includes(math)) math = null;
    } else if (mathEnd(line) && !line.trimStart().slice(2).includes(mathEnd(line))) {
      math = mathEnd(line);
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

/** A text that grows: what is whole is rendered once, the rest when it has changed. */
export class GrowingMarkdown {
  constructor(host) {
    this.host = host;
    this.text = '';
    this.settled = 0;
    this.tail = [];
  }

  update(text) {
    if (text === this.text) return;
    this.text = text;
    const rest = text.slice(this.settled);
    const step = settledLength(rest);
    for (const node of this.tail) node.remove();
    if (step > 0) this.host.append(...renderMarkdown(rest.slice(0, step)));
    this.settled += step;
    this.tail = renderMarkdown(rest.slice(step));
    this.host.append(...this.tail);
  }
}

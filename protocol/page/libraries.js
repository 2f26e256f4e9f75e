// Formulas and colors of code, by KaTeX and highlight.js, which are loaded when the first of them is shown. Where the
// program was built without one its file is empty, and the text stays as it is written.
//
// Neither gets to write HTML: KaTeX makes MathML nodes, without styles, and of what highlight.js marks the classes are
// taken and the words become text.

import { element } from './element.js';

const kMostColored = 50_000;  // characters
const kLoaded = new Map();  // promises of a library, or of undefined

function library(name) {
  if (!kLoaded.has(name)) {
    kLoaded.set(name, new Promise(done => {
      const script = element('script', { src: new URL(`vendor/${name}.js`, import.meta.url).href });
      script.addEventListener('load', () => done(globalThis[name]));
      script.addEventListener('error', () => done(undefined));
      document.head.append(script);
    }));
  }
  return kLoaded.get(name);
}

// The policy of the page lets no attribute be a style.
function withoutStyles(tree) {
  if (tree.attributes) delete tree.attributes.style;
  for (const child of tree.children ?? []) withoutStyles(child);
}

/** A formula, or `written` where it cannot be shown as one. */
export function mathNode(source, display, written) {
  const node = element('span', { class: display ? 'math display' : 'math' }, written);
  library('katex').then(katex => {
    if (!katex) return;
    try {
      const tree = katex.__renderToDomTree(source, { displayMode: display, output: 'mathml', throwOnError: true, strict: 'ignore',
        trust: false, maxSize: 20, maxExpand: 200 });
      withoutStyles(tree);
      node.replaceChildren(tree.toNode());
    } catch { /* it is no formula: its text stays */ }
  });
  return node;
}

const kEntities = { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#x27;': "'", '&#39;': "'" };

/** Nodes of what highlight.js gives: text with entities, and spans with one class. */
function nodesOf(marked) {
  const root = document.createDocumentFragment();
  const open = [root];
  for (const [token, name] of marked.matchAll(/<span class="([\w -]+)">|<\/span>|&(?:amp|lt|gt|quot|#x27|#39);|[^<&]+|[<&]/g)) {
    if (name !== undefined) {
      const span = element('span', { class: name });
      open.at(-1).append(span);
      open.push(span);
    } else if (token === '</span>') {
      if (open.length > 1) open.pop();
    } else {
      open.at(-1).append(kEntities[token] ?? token);
    }
  }
  root.normalize();
  return root;
}

/** `node` has the code as its text. */
export function colorCode(node, language, code) {
  if (language === '' || code.length > kMostColored) return;
  library('hljs').then(hljs => {
    if (!hljs?.getLanguage(language)) return;
    const nodes = nodesOf(hljs.highlight(language, code, true).value);
    if (nodes.textContent === code) node.replaceChildren(nodes);
  });
}

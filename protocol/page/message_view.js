// One message on the page. It is made once and changed where the message has changed, so that focus, an opened report and
// what a screen reader has read stay as they are.

import { element } from './element.js';
import { GrowingMarkdown } from './markdown.js';
import { bar, liveWords, reportNode } from './report.js';

export const button = (words, action, properties = {}) => {
  const node = element('button', { type: 'button', class: 'quiet small', ...properties }, words);
  node.addEventListener('click', action);
  return node;
};

/** Without a change where nothing changes: what watches the page would be told of one. */
function hide(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

/** Why a reply is not whole, or ''. */
export function endingOf(node, grows) {
  if (grows) return '';
  if (node.error) return node.content === '' ? node.error : 'Cut off: ' + node.error;
  if (node.growing) return 'Cut off: the page was closed before the reply had ended.';
  if (node.stopped) return 'Stopped.';
  return node.finish === 'length' ? 'Cut off: it had as many tokens as it may.' : '';
}

/** There is something to go on from, and it is not known to be whole. */
export const canContinue = (node, grows) => node.role === 'assistant' && node.content.trim() !== '' && endingOf(node, grows) !== '';

export class MessageView {
  /** `actions` has what the buttons do: edit, regenerate, goOn, branch, copy, show. */
  constructor(node, actions) {
    this.actions = actions;
    this.drawn = {};  // of each part: from what
    this.editing = false;
    const user = node.role === 'user';
    this.content = element('div', { class: 'content' });
    this.article = element('article', { class: 'message ' + node.role, 'aria-label': user ? 'You' : 'Reply', 'data-id': node.id });
    if (user) {
      if (node.files?.length > 0) {
        this.article.append(element('ul', { class: 'files', 'aria-label': 'Attached files' },
          ...node.files.map(file => element('li', { title: `${file.text.length} characters` }, file.name))));
      }
      this.content.textContent = node.content;
      this.content.hidden = node.content === '';
      this.article.append(this.content);
    } else {
      this.progress = element('div', { class: 'progress', hidden: true });
      this.markdown = new GrowingMarkdown(this.content);
      this.live = element('p', { class: 'live', hidden: true });
      this.ending = element('p', { hidden: true });
      this.article.append(this.progress, this.content, this.live, this.ending);
    }
    this.group = element('div', { class: 'actions', role: 'group', 'aria-label': 'Of this message', hidden: true });
    this.article.append(this.group);
  }

  /** True: a part is not as it was drawn last. */
  changed(part, from) {
    const key = JSON.stringify(from);
    if (this.drawn[part] === key) return false;
    this.drawn[part] = key;
    return true;
  }

  /** `beside`: the messages that it is one of; `last`: it ends the path; `stream`: what grows it, or undefined. */
  update(node, { stream, beside, last, context }) {
    if (node.role === 'assistant') this.updateReply(node, stream, context);
    if (this.editing) return;
    const at = beside.indexOf(node);
    const goesOn = last && canContinue(node, Boolean(stream));
    if (this.changed('actions', [at, beside.length, goesOn, Boolean(stream)])) this.drawActions(node, beside, at, goesOn, stream);
  }

  updateReply(node, stream, context) {
    if (stream) this.article.setAttribute('aria-busy', 'true');
    if (node.reasoning) this.updateReasoning(node.reasoning);
    this.markdown.update(node.content);
    const waits = stream !== undefined && node.content === '' && !node.reasoning;
    hide(this.progress, !waits);
    if (waits) this.drawProgress(stream.progress);
    else if (this.changed('progress', 'over')) this.progress.replaceChildren();
    const words = stream?.timings ? liveWords(stream.timings, context) : '';
    hide(this.live, words === '');
    if (this.changed('live', words)) this.live.textContent = words;
    const ending = endingOf(node, Boolean(stream));
    hide(this.ending, ending === '');
    if (this.changed('ending', ending)) {
      this.ending.className = node.error ? 'failure' : 'aside';
      this.ending.textContent = ending;
    }
    if (this.changed('report', stream ? null : node.report ?? null)) {
      this.report?.remove();
      this.report = stream || !node.report ? null : reportNode(node.report);
      if (this.report) this.article.append(this.report);
    }
    if (!stream) this.article.removeAttribute('aria-busy');
  }

  updateReasoning(words) {
    if (!this.reasoning) {
      const content = element('div', { class: 'content' });
      this.reasoning = new GrowingMarkdown(content);
      this.article.insertBefore(element('details', { class: 'reasoning' }, element('summary', {}, 'Reasoning'), content), this.content);
    }
    this.reasoning.update(words);
  }

  drawProgress(progress) {
    if (!this.changed('progress', progress)) return;
    const words = progress ? `Reading the prompt: ${progress.processed} of ${progress.total} tokens, ${progress.cache} restored` :
      'Waiting for the first token';
    this.progress.replaceChildren(element('span', {}, words), ...(progress ? [bar([['restored', progress.cache, ''],
      ['computed', progress.processed - progress.cache, ''], ['rest', progress.total - progress.processed, '']], words)] : []));
  }

  drawActions(node, beside, at, goesOn, stream) {
    const focused = this.group.contains(document.activeElement) ? document.activeElement.dataset.act : null;
    const act = (name, words, action, more = {}) => button(words, action, { 'data-act': name, ...more });
    this.group.replaceChildren();
    this.group.hidden = Boolean(stream);
    if (stream) return;
    if (beside.length > 1) {
      const turn = (name, to, words, sign) => act(name, sign, () => this.actions.show(beside[to], name),
        { 'aria-label': words, disabled: to < 0 || to >= beside.length });
      this.group.append(element('span', { class: 'ways' }, turn('before', at - 1, 'The one before', '‹'),
        element('span', {}, `${at + 1} / ${beside.length}`), turn('next', at + 1, 'The next one', '›')));
    }
    if (goesOn) this.group.append(act('continue', 'Continue', () => this.actions.goOn(node), { title: 'Let the model go on with this reply' }));
    if (node.role === 'user') this.group.append(act('edit', 'Edit', () => this.edit(node)));
    else this.group.append(act('regenerate', 'Regenerate', () => this.actions.regenerate(node)));
    this.group.append(act('branch', 'Branch', () => this.actions.branch(node), { title: 'A conversation of its own from here' }),
      act('copy', 'Copy', () => this.actions.copy(node)));
    if (focused) this.focusAction(focused);
  }

  focusAction(name) {
    const usable = [...this.group.querySelectorAll('button:not(:disabled)')];
    (usable.find(one => one.dataset.act === name) ?? usable[0])?.focus();
  }

  edit(node) {
    if (!this.actions.mayEdit()) return;
    this.editing = true;
    const field = element('textarea', { class: 'edit', value: node.content, 'aria-label': 'Edit the message', rows: Math.min(12, node.content.split('\n').length + 1) });
    const leave = () => {
      this.editing = false;
      field.replaceWith(this.content);
      delete this.drawn.actions;
      this.actions.refresh();
    };
    const cancel = () => {
      leave();
      this.focusAction('edit');
    };
    const send = () => {
      if (field.value.trim() === '' || !this.actions.mayEdit()) return;
      const words = field.value;
      leave();
      this.actions.edit(node, words);
    };
    field.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        cancel();
      } else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    this.content.replaceWith(field);
    this.group.replaceChildren(button('Send', send, { class: 'small' }), button('Cancel', cancel));
    field.focus();
  }
}

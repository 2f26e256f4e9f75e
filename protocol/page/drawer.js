// The list of conversations: search, rename, delete with undo, and as files.

import * as conversations from './conversations.js';
import { element } from './element.js';

const kLongestFile = 20_000_000;  // characters, of conversations to import

export class Drawer {
  /** `chat` shows the conversation; `choose` opens another; `notify(words, undo)` tells all. */
  constructor(parts, { chat, choose, notify }) {
    Object.assign(this, { parts, chat, choose, notify });
    this.renaming = null;  // the conversation's id
    parts.search.addEventListener('input', () => this.draw());
    parts.exporting.addEventListener('click', () => this.save());
    parts.importing.addEventListener('click', () => parts.file.click());
    parts.file.addEventListener('change', () => this.load());
  }

  draw() {
    if (this.renaming) return;  // its field stays; leaving it draws the list
    const { list, search } = this.parts;
    const focused = list.contains(document.activeElement) ? [document.activeElement.closest('li').dataset.id, document.activeElement.className] : null;
    const found = conversations.all().filter(one => conversations.mentions(one, search.value));
    list.replaceChildren(...found.map(one => this.row(one)));
    if (found.length === 0 && search.value.trim() !== '') list.append(element('li', { class: 'note' }, 'No conversation has these words.'));
    if (focused) {
      const row = [...list.children].find(one => one.dataset.id === focused[0]);
      [...(row?.querySelectorAll('button') ?? [])].find(one => one.className === focused[1])?.focus();
    }
  }

  row(conversation) {
    const title = conversations.titleOf(conversation);
    const open = element('button', { type: 'button', class: 'open', title }, conversation.branch ? '↳ ' + title : title);
    if (conversation.id === this.chat.conversation.id) open.setAttribute('aria-current', 'true');
    open.addEventListener('click', () => this.choose(conversations.load(conversation.id) ?? conversations.newConversation()));
    const icon = (name, words, sign, action) => {
      const node = element('button', { type: 'button', class: 'quiet icon ' + name, 'aria-label': words + ': ' + title, title: words }, sign);
      node.addEventListener('click', action);
      return node;
    };
    const row = element('li', { 'data-id': conversation.id }, open, icon('rename', 'Rename', '✎', () => this.rename(conversation, row)),
      icon('remove', 'Delete', '×', () => this.remove(conversation)));
    return row;
  }

  /** The conversation as it is in use, or as it is kept. */
  held(conversation) {
    const { chat } = this;
    return chat.streamOf(conversation)?.conversation ??
      (chat.conversation.id === conversation.id ? chat.conversation : conversations.load(conversation.id));
  }

  rename(conversation, row) {
    const field = element('input', { class: 'new-title', value: conversations.titleOf(conversation), 'aria-label': 'Title' });
    this.renaming = conversation.id;
    const end = keeps => {
      if (!this.renaming) return;
      this.renaming = null;
      const held = this.held(conversation);
      if (keeps && held && field.value.trim() !== conversations.titleOf(held)) {
        conversations.rename(held, field.value);
        conversations.put(held);
      }
      this.draw();
      this.buttonOf(conversation, '.rename')?.focus();
    };
    field.addEventListener('keydown', event => {
      if (event.key !== 'Enter' && event.key !== 'Escape') return;
      event.preventDefault();
      event.stopPropagation();
      end(event.key === 'Enter');
    });
    field.addEventListener('blur', () => end(true));
    row.replaceChildren(field);
    field.select();
    field.focus();
  }

  buttonOf(conversation, name) {
    return [...this.parts.list.children].find(one => one.dataset.id === conversation.id)?.querySelector(name);
  }

  remove(conversation) {
    const here = conversation.id === this.chat.conversation.id;
    this.chat.forget(conversation);
    const kept = conversations.load(conversation.id) ?? conversation;
    const draft = conversations.draftOf(kept);
    conversations.remove(conversation.id);
    if (here) this.choose(conversations.newConversation());
    this.draw();
    this.notify('Deleted: ' + conversations.titleOf(kept), () => {
      for (const node of Object.values(kept.nodes)) {
        if (!node.growing) continue;
        delete node.growing;
        node.stopped = true;
      }
      conversations.put(kept);
      conversations.keepDraft(kept, draft);
      if (here) this.choose(kept);
      this.draw();
      this.buttonOf(kept, '.open')?.focus();
    });
  }

  save() {
    const all = conversations.all();
    if (all.length === 0) return this.notify('There is no conversation to export.');
    const link = element('a', { download: 'reprise-conversations.json',
      href: URL.createObjectURL(new Blob([conversations.exported(all)], { type: 'application/json' })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    this.notify(all.length === 1 ? 'One conversation exported.' : `${all.length} conversations exported.`);
  }

  async load() {
    const [file] = this.parts.file.files;
    if (!file) return;
    try {
      if (file.size > kLongestFile) throw new Error('the file is too large');
      const read = conversations.imported(await file.text());
      const kept = read.filter(one => conversations.put(one)).length;
      this.notify(kept === read.length ? `Imported: ${kept}.` : `Imported: ${kept} of ${read.length}; there is no room for the others.`);
    } catch (error) {
      this.notify(`${file.name}: ${error.message}.`);
    }
    this.parts.file.value = '';
    this.draw();
  }
}

// Text files that are sent with the next message.

import { element } from './element.js';

const kMostFiles = 20;
const kMostCharacters = 1_000_000;  // of all that go with one message

export class Attachments {
  constructor({ list, button, input, field }, notify) {
    Object.assign(this, { list, notify });
    this.files = [];
    button.addEventListener('click', () => input.click());
    input.addEventListener('change', async () => {
      await this.add([...input.files]);
      input.value = '';
      field.focus();
    });
    field.addEventListener('dragover', event => event.preventDefault());
    const take = transfer => event => {
      const files = [...(event[transfer]?.files ?? [])];
      if (files.length === 0) return;
      event.preventDefault();
      this.add(files);
    };
    field.addEventListener('drop', take('dataTransfer'));
    field.addEventListener('paste', take('clipboardData'));
  }

  async add(files) {
    for (const file of files) {
      const problem = await this.take(file);
      if (problem) this.notify(`${file.name}: ${problem}.`);
    }
    this.draw();
  }

  /** Why not, or ''. */
  async take(file) {
    if (this.files.length >= kMostFiles) return `a message takes ${kMostFiles} files at most`;
    if (file.type === 'application/pdf') return 'PDF files are not taken, their text is';
    if (file.size > 4 * kMostCharacters) return 'the file is too large';
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text;
    try {
      text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch {
      return 'the file is not text in UTF-8';
    }
    if (text.includes('\0')) return 'the file is not text';
    if (this.files.reduce((sum, other) => sum + other.text.length, text.length) > kMostCharacters) return 'the files are too large together';
    this.files.push({ name: file.name, text });
    return '';
  }

  clear() {
    this.files = [];
    this.draw();
  }

  draw() {
    this.list.hidden = this.files.length === 0;
    this.list.replaceChildren(...this.files.map((file, i) => {
      const remove = element('button', { type: 'button', class: 'quiet icon remove', 'aria-label': 'Remove: ' + file.name }, '×');
      remove.addEventListener('click', () => {
        this.files = this.files.filter((_, at) => at !== i);
        this.draw();
      });
      return element('li', {}, file.name, remove);
    }));
  }
}

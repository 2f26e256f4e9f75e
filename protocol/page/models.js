// The models that the server has: which one answers, what is said of it above the chat, and loading one that was unloaded.

import { ApiFailure, getJson, postJson } from './api.js';
import { element } from './element.js';
import { session } from './storage.js';

const kBuiltin = 'builtin';
const kHidden = 'reprise.builtin-hidden';  // in this tab the user has closed what is said of it
const kServeReal = 'reprise serve --model hf:Qwen/Qwen3-0.6B';

export class Models {
  /** `chosen` gives the id that is wanted, or ''; `choose` is told of another; `failed` gets an ApiFailure or null. */
  constructor({ select, notice }, { key, chosen, choose, failed, notify }) {
    Object.assign(this, { select, notice, key, chosen, choose, failed, notify });
    this.served = [];
    this.unloaded = [];  // names
    this.loading = '';
    select.addEventListener('change', () => {
      this.choose(select.value);
      this.draw();
    });
  }

  async refresh() {
    try {
      this.served = (await getJson('v1/models', this.key())).data ?? [];
      this.unloaded = await this.findUnloaded();
      this.failed(null);
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error;
      this.served = [];
      this.unloaded = [];
      this.failed(error);
    }
    this.draw();
  }

  /** Those of the configuration that are not served; none where the key does not show them. */
  async findUnloaded() {
    if (this.served.length > 0 && !this.isMissing()) return [];
    try {
      return (await getJson('v1/cache', this.key())).models.filter(model => model.state === 'unloaded').map(model => model.model);
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error;
      return [];
    }
  }

  isMissing() {
    return this.chosen() !== '' && !this.served.some(model => model.id === this.chosen());
  }

  /** The card of the one that answers, or undefined. */
  current() {
    return this.chosen() === '' ? this.served[0] : this.served.find(model => model.id === this.chosen());
  }

  context() {
    return this.current()?.max_model_len ?? 0;
  }

  draw() {
    const { select } = this;
    const stateOf = model => (model.state && model.state !== 'ready' ? ` (${model.problem || model.state})` : '');
    const options = this.served.map(model => [model.id, model.id + stateOf(model)]);
    for (const name of this.unloaded) options.push([name, name + ' (unloaded)']);
    const wanted = this.chosen() || this.served[0]?.id || this.unloaded[0] || '';
    if (wanted && !options.some(([id]) => id === wanted)) options.push([wanted, wanted + ' (not served)']);
    if (options.length === 0) options.push(['', 'No model']);
    const drawn = JSON.stringify(options);
    if (this.drawn !== drawn) {
      this.drawn = drawn;
      select.replaceChildren(...options.map(([id, words]) => new Option(words, id)));
    }
    select.value = wanted;
    select.disabled = options.length === 1;
    select.title = options.find(([id]) => id === wanted)?.[1] ?? '';
    this.drawNotice(wanted);
  }

  drawNotice(wanted) {
    const words = this.unloaded.includes(wanted) ? ['unloaded', wanted, this.loading] : this.current()?.id === kBuiltin && session.getItem(kHidden) === null ? ['builtin'] : [];
    if (this.noticed === words.join()) return;
    this.noticed = words.join();
    this.notice.hidden = words.length === 0;
    if (words[0] === 'unloaded') this.notice.replaceChildren(...this.offerToLoad(wanted));
    else if (words[0] === 'builtin') this.notice.replaceChildren(...this.aboutBuiltin());
    else this.notice.replaceChildren();
  }

  aboutBuiltin() {
    const copy = element('button', { type: 'button', class: 'quiet small' }, 'Copy the command');
    copy.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(kServeReal);
        this.notify('Copied.');
      } catch {
        this.notify('The browser does not allow copying.');
      }
    });
    const close = element('button', { type: 'button', class: 'quiet icon remove', 'aria-label': 'Close the note on the model' }, '×');
    close.addEventListener('click', () => {
      session.setItem(kHidden, 'yes');
      this.draw();
    });
    return [element('p', {}, 'This is the built-in model, for trying the server: it has 5 million parameters and knows nothing. To serve a real model:'),
      element('p', { class: 'command' }, element('code', {}, kServeReal), copy), close];
  }

  offerToLoad(name) {
    const load = element('button', { type: 'button', disabled: this.loading !== '' }, this.loading === name ? 'Loading…' : 'Load');
    load.addEventListener('click', () => this.load(name));
    return [element('p', {}, `The model ${name} is unloaded.`), load];
  }

  async load(name) {
    this.loading = name;
    this.draw();
    try {
      await postJson('v1/models/load', { model: name }, this.key());
      this.notify(`${name} is loaded.`);
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error;
      this.notify(`${name} was not loaded: ${error.message}`);
    }
    this.loading = '';
    await this.refresh();
  }
}

// Chromium, and what every test of the page wants of it.

import assert from 'node:assert/strict';
import process from 'node:process';
import { chromium } from 'playwright-core';

export const { REAL, SCRIPTED, STAGED, LOCKED, KEY } = process.env;
const kPatience = 60_000;  // milliseconds; nothing is measured

export async function launch() {
  const asRoot = process.getuid?.() === 0;  // whom Chromium's sandbox does not take
  return chromium.launch({
    executablePath: process.env.CHROMIUM, timeout: kPatience,
    args: ['--disable-dev-shm-usage', '--disable-gpu', ...(asRoot ? ['--no-sandbox'] : [])],
  });
}

/** A page that remembers what went wrong: errors, and requests that left its server. */
export async function open(browser, url, { prepare = async () => {}, ...options } = {}) {
  const context = await browser.newContext({ reducedMotion: 'reduce', ...options });
  context.setDefaultTimeout(kPatience);
  await prepare(context);
  const page = await context.newPage();
  const wrong = [];
  page.on('pageerror', error => wrong.push('error: ' + error.message));
  page.on('console', message => { if (message.type() === 'error') wrong.push('console: ' + message.text()); });
  page.on('request', request => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) wrong.push('request to ' + request.url());
  });
  await page.goto(url);
  return {
    page,
    async close(expected = () => false) {
      assert.deepEqual(wrong.filter(one => !expected(one)), []);
      await context.close();
    },
  };
}

export const field = page => page.getByRole('textbox', { name: 'Message', exact: true });
export const replies = page => page.locator('.message.assistant');
export const busy = page => page.locator('.message[aria-busy]');

export async function say(page, words) {
  await field(page).fill(words);
  await field(page).press('Enter');
}

/** Says it, and waits until the reply is whole. */
export async function ask(page, words) {
  const before = await page.locator('.message').count();
  await say(page, words);
  await page.locator('.message').nth(before + 1).waitFor();
  await settled(page);
  return replies(page).last();
}

export async function settled(page) {
  await page.waitForFunction(() => document.querySelector('.message[aria-busy]') === null);
}

/** Whether anything sticks out of the window to the side. */
export async function assertNoOverflow(page, where) {
  const [content, window, widest] = await page.evaluate(() => {
    const out = [...document.querySelectorAll('body *')].filter(node => {
      const box = node.getBoundingClientRect();
      return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1) && !node.closest('pre, .table, .skip, .hidden, .tree') &&
        getComputedStyle(node).visibility !== 'hidden';
    });
    return [document.documentElement.scrollWidth, innerWidth, out.map(node => node.outerHTML.slice(0, 120))];
  });
  assert.ok(content <= window, `${where}: ${content} pixels wide in a window of ${window}`);
  assert.deepEqual(widest, [], where);
}

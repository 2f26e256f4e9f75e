// The pictures of docs/page:  node screenshots.mjs FOLDER

import { ask, launch, open, REAL, replies } from './browser.mjs';

const folder = process.argv[2];
const kTurns = ['Hello, I am Ada and I live in Ljubljana.', 'My cat is called Miso.', 'My shopping list is: milk, bread and figs.',
  'Add tea to my shopping list.', 'Where do I live?'];

const browser = await launch();
const talk = async (page, turns) => {
  for (const words of turns) await ask(page, words);
};
const take = (page, name) => page.screenshot({ path: `${folder}/${name}.png` });

const greedy = context => context.addInitScript(() => localStorage.setItem('reprise.settings', JSON.stringify({ temperature: '0' })));
{
  const { page, close } = await open(browser, REAL, { viewport: { width: 1120, height: 760 }, prepare: greedy });
  await talk(page, kTurns);
  await replies(page).last().locator('.report summary').click();
  await page.locator('#messages').evaluate(node => { node.scrollTop = node.scrollHeight; });
  await take(page, 'light');
  await page.getByRole('button', { name: 'Cache', exact: true }).click();
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.waitForTimeout(4500);  // a few points on the curves
  await take(page, 'dark');
  await close();
}
{
  const { page, close } = await open(browser, REAL, { viewport: { width: 360, height: 740 }, deviceScaleFactor: 1.5, prepare: greedy });
  await talk(page, kTurns.slice(0, 3));
  await replies(page).last().locator('.report summary').click();
  await page.locator('#messages').evaluate(node => { node.scrollTop = node.scrollHeight; });
  await take(page, 'phone');
  await close();
}
await browser.close();

/** What lazy.js loads. */
export { elicitationForm } from './elicitation-form.js';
export { FindResults } from './find-results.js';
export { Inspector } from './inspector.js';
export { copyText, saveTranscript } from './transcript-text.js';

"use strict";
(() => {
  // Where there is no clipboard for scripts, the text is selected and copied as by hand.
  const byHand = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "away";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return byHand(text);
    }
  };

  for (const button of document.querySelectorAll("button.copy")) {
    const label = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("code").textContent;
      button.textContent = (await copy(text)) ? "Copied" : "Not copied";
      setTimeout(() => { button.textContent = label; }, 1600);
    });
  }
})();

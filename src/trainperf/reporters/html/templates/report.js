"use strict";
(() => {
  const root = document.documentElement;
  const themes = ["auto", "light", "dark"];
  const toggle = document.getElementById("theme");

  const remembered = () => {
    try { return localStorage.getItem("trainperf-theme"); } catch { return null; }
  };
  const remember = (theme) => {
    try { localStorage.setItem("trainperf-theme", theme); } catch { /* not on this page */ }
  };
  const wear = (theme) => {
    if (theme === "auto") { delete root.dataset.theme; } else { root.dataset.theme = theme; }
    toggle.textContent = "Theme: " + theme;
  };

  let theme = [remembered(), root.dataset.theme, "auto"].find((one) => themes.includes(one));
  wear(theme);
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    wear(theme);
    remember(theme);
  });

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

  for (const button of document.querySelectorAll("button[data-copies]")) {
    const label = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copies).textContent;
      button.textContent = (await copy(text)) ? "Copied" : "Not copied";
      setTimeout(() => { button.textContent = label; }, 1600);
    });
  }
})();

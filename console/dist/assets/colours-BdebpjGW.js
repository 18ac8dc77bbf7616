function r(o){const e=document.createElement("span");e.hidden=!0,e.style.color=`var(${o})`,document.body.append(e);const t=getComputedStyle(e).color;return e.remove(),t}export{r as c};

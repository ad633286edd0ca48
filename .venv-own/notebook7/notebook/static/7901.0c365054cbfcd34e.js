"use strict";(self.rspackChunk_JUPYTERLAB_CORE_OUTPUT=self.rspackChunk_JUPYTERLAB_CORE_OUTPUT||[]).push([[7901],{58956(e,t,r){r.d(t,{diagram:()=>l});var s=r(71981);r(97703),r(17522),r(39264),r(32567),r(78979),r(19619),r(67999),r(20709),r(27636),r(38324),r(73664),r(74844),r(95308),r(63032),r(29915),r(35452);var a=(0,r(45042).K)(e=>`${(0,s.tM)(e)}
  .swimlane.cluster rect {
    stroke: ${e.clusterBorder} !important;
  }
  [data-look="neo"].cluster rect {
    filter: none;
  }
`,"getStyles"),l=(0,s.ur)({defaultLayout:"swimlane",styles:a})}}]);
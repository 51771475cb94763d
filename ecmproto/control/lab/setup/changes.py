"""Changes of a scenario before its run: another variant, mechanism, flow control or value."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ecmproto.control.lab.setup.scenario import Scenario, apply


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes of a scenario: None leaves a part as it is, ``settings`` are texts ``KEY=VALUE``."""

    variant: str | None = None
    mechanism: str | None = None
    flow_control: str | None = None
    settings: tuple[str, ...] = ()

    def applied(self, scenario: Scenario) -> Scenario:
        """Return a changed scenario; raises SpecError for values that it does not have."""
        changed = scenario.with_variant(self.variant or "")
        if self.mechanism is not None:
            changed = changed.with_mechanism(self.mechanism)
        if self.flow_control is not None:
            changed = changed.with_value("control.flow_control", self.flow_control)
        return apply(changed, self.settings)

    def named(self, scenario: Scenario, name: str) -> Scenario:
        """Return the run of a figure's ``@name``: a variant of the scenario, or a mechanism."""
        if name in scenario.variants:
            return replace(self, variant=name).applied(scenario)
        if name == scenario.document.control.get("mechanism"):
            return replace(self, mechanism=name).applied(scenario)
        # settings of the scenario's own mechanism do not concern another one
        return self.applied(scenario).with_mechanism(name)

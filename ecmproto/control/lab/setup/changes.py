"""Changes of a scenario before a run: another variant, mechanism, flow control or value."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ecmproto.control.lab.setup.scenario import Scenario, apply


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of a scenario; ``None`` means no change, and ``settings`` are texts ``KEY=VALUE``."""

    variant: str | None = None
    mechanism: str | None = None
    flow_control: str | None = None
    settings: tuple[str, ...] = ()

    def applied(self, scenario: Scenario) -> Scenario:
        """Return the changed scenario.

        Raises SpecError for values that the scenario does not have.
        """
        changed = scenario.with_variant(self.variant or "")
        if self.mechanism is not None:
            changed = changed.with_mechanism(self.mechanism)
        if self.flow_control is not None:
            changed = changed.with_value("control.flow_control", self.flow_control)
        return apply(changed, self.settings)

    def named(self, scenario: Scenario, name: str) -> Scenario:
        """Return the run that a figure calls ``@name``: a variant of the scenario, or another mechanism."""
        if name in scenario.variants:
            return replace(self, variant=name).applied(scenario)
        if name == scenario.document.control.get("mechanism"):
            return replace(self, mechanism=name).applied(scenario)
        # Settings of the scenario's own mechanism do not apply to another mechanism.
        return self.applied(scenario).with_mechanism(name)

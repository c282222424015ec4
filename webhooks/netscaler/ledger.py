"""What of our changes is on the appliance's disk.

A member that is taken out comes back with a reboot, until the configuration is saved.
So its deregistration is not done before that: `group` notes each change here, and asks
whether what it depends on is saved. `webhooks.device.saving` does the saving.
"""

from collections.abc import Hashable

import attrs

from webhooks.device.saving import Saver


@attrs.define(eq=False)
class Ledger:
    """Changes of one pair.

    Attributes:
        saver: saves it.
    """

    saver: Saver
    _changes: dict[Hashable, int] = attrs.field(factory=dict, init=False)
    _before: int | None = attrs.field(default=None, init=False)

    @property
    def knows_before(self) -> bool:
        """Whether it is known what was unsaved when this process came."""
        return self._before is not None

    def note_before(self, *, unsaved: bool) -> None:
        """Note whether the appliance had unsaved changes when this process came.

        They may be those of the process before it, which died before it saved.
        """
        self._before = self.saver.note_change() if unsaved else 0

    def note(self, key: Hashable) -> None:
        """Note that a change about this member was made, or may have been."""
        self._changes[key] = self.saver.note_change()

    def forget(self, key: Hashable) -> None:
        """Keep nothing about a member whose last change is saved."""
        self._changes.pop(key, None)

    def is_saved(self, key: Hashable) -> bool:
        """Tell whether the last change about this member is on disk."""
        number = self._changes.get(key, self._before or 0)
        return self.saver.saved >= number

    @property
    def trouble(self) -> str:
        """Why the last save failed; empty where it did not."""
        return self.saver.trouble

    async def close(self) -> None:
        """Save what is not saved."""
        await self.saver.close()

"""What a broker speaks, as it told us, and which version of a request to send it.  Pure."""

from collections.abc import Mapping
from dataclasses import field

from ottla.errors import ErrorCode, UnsupportedError
from ottla.values import dataclass
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.registry import Api, ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerVersions:
    """The answer to ApiVersions."""

    ranges: Mapping[int, range] = field(default_factory=dict)
    """API key -> versions."""
    features: Mapping[str, int] = field(default_factory=dict)
    """Finalized features -> level; `transaction.version` is one."""
    features_epoch: int = -1

    @classmethod
    def of(cls, answer: ApiVersionsResponse) -> "BrokerVersions":
        return cls(
            ranges={k.api_key: range(k.min_version, k.max_version + 1) for k in answer.api_keys},
            features={f.name: f.max_version_level for f in answer.finalized_features},
            features_epoch=answer.finalized_features_epoch,
        )

    def pick(
        self,
        api: Api,
        *,
        min_version: int | None = None,
        max_version: int | None = None,
        broker: str = "the broker",
    ) -> int:
        """The newest version of `api` that both sides speak, within the caller's own limits.

        Raises `UnsupportedError` if there is none.
        """
        theirs = self.ranges.get(api.key, range(0))
        low = max(api.versions.low, theirs.start, min_version or 0)
        high = min(api.versions.high, theirs.stop - 1)
        if max_version is not None:
            high = min(high, max_version)
        if low > high:
            wanted = _span(
                max(api.versions.low, min_version or 0),
                api.versions.high if max_version is None else min(api.versions.high, max_version),
            )
            has = _span(theirs.start, theirs.stop - 1) if theirs else "no version"
            raise UnsupportedError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{broker} speaks {has} of {api.name}, not {wanted}",
            )
        return high

    def supports(self, key: ApiKey, version: int = 0) -> bool:
        """Whether the broker speaks this version of an API, or a newer one."""
        theirs = self.ranges.get(key)
        return theirs is not None and theirs.stop > version


def fallback_version(answer: ApiVersionsResponse) -> int:
    """In which version to ask ApiVersions again, after UNSUPPORTED_VERSION (KIP-511)."""
    for known in answer.api_keys:
        if known.api_key == ApiKey.API_VERSIONS:
            return max(0, int(known.max_version))
    return 0


def _span(low: int, high: int) -> str:
    return f"v{low}" if low == high else f"v{low}-{high}"

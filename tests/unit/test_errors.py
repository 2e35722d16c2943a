"""The exception tree: where each class hangs, what it says and that it survives the way to another process."""

import pickle

import pytest

from reliability import errors
from reliability.failures import SettlementFailureCode

POLICY_VALUES = {"max_retries": 33, "initial_backoff_ms": 1, "backoff_multiplier": 2, "backoff_cap_ms": 3}

EXAMPLES = [
    errors.ChioError(),
    errors.InvalidInputError("amount.units", "expected 1 or more"),
    errors.PolicyRangeError("max_retries exceeds 32: 33", **POLICY_VALUES),
    errors.InvalidRecordError("dead letter", "schema: expected v1"),
    errors.InvalidMessageError("job_id", "expected a string"),
    errors.AdmissionConflictError("r-1"),
    errors.DeadLetterConflictError("r-1"),
    errors.StaleClaimError("r-1"),
    errors.StorageUnavailableError(operation="claim", key="job:r-1"),
    errors.StorageRefusedError(operation="claim", key="job:r-1"),
    errors.CapacityReachedError(what="the reconciliation queue", capacity=10),
    errors.ConfigurationError("CHIO_LEASE_MS is shorter than CHIO_TIME_LIMIT_MS"),
    errors.HookLoadError("a.b:c", "there is no module a"),
    errors.PublishError("the wake-up of job 'r-1'", "settlement"),
    errors.HookInvalidObservationError("secret"),
    errors.HookTransientError("secret"),
    errors.HookPermanentError("secret"),
    errors.HookPipelineError(SettlementFailureCode.RPC, "secret"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: errors.ChioError) -> None:
    """An error raised in a child process arrives as the same class with the same text and facts."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes, made in this line

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_every_error_of_the_tree_is_drawn_and_tried() -> None:
    """The module's drawing names every class of the tree, and the examples above hold every leaf."""
    classes = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ChioError)}

    missing = {kind.__name__ for kind in classes if kind.__name__ not in (errors.__doc__ or "")}

    assert missing == set()
    assert classes - {type(error) for error in EXAMPLES} == {errors.HookError}


@pytest.mark.parametrize(
    "kind",
    [
        errors.InvalidInputError,
        errors.PolicyRangeError,
        errors.InvalidRecordError,
        errors.InvalidMessageError,
    ],
)
def test_refused_values_are_value_errors(kind: type[Exception]) -> None:
    """What a decoder raises can be caught as a ValueError and as this project's own error."""
    assert issubclass(kind, ValueError)
    assert issubclass(kind, errors.InvalidInputError)
    assert issubclass(kind, errors.ChioError)


def test_a_default_message_is_the_docstring() -> None:
    """A class without facts says what its docstring says."""
    assert str(errors.ChioError()) == "Something in this project refused or failed."


def test_a_subclass_without_docstring_says_what_its_parent_says() -> None:
    """A hook's own error class is readable without a docstring of its own."""

    class RailBusyError(errors.HookTransientError): ...

    assert str(RailBusyError()) == str(errors.HookTransientError())


@pytest.mark.parametrize("error", [error for error in EXAMPLES if isinstance(error, errors.HookError)])
def test_a_hook_error_keeps_its_detail_to_itself(error: errors.HookError) -> None:
    """The detail is an attribute to be hashed; neither text nor representation shows it."""
    assert error.detail == "secret"
    assert "secret" not in str(error) + repr(error)

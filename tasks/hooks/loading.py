"""
Load a hook from `package.module:attribute` and hold it to its contract before the first job meets it.

The attribute is the hook itself, or a class or function without arguments that makes one. Everything that can be wrong
is a `HookLoadError` in one sentence; what foreign code raised is chained and named by its type, never by its text.
"""

import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Final, TypeVar

from reliability.errors import ChioError, HookLoadError
from tasks.hooks.contract import DeliveryHook, SettlementHook

Hook = TypeVar("Hook")

#: Methods that a hook may have beside the required one: it is asked by them, so they are held to the contract too.
_OPTIONAL: Final = ("verify", "observe_many", "send_many")
_OPTIONAL_ON_LOOP: Final = ("observe_async", "send_async")


def load_settlement_hook(path: str) -> SettlementHook:
    """
    Load the settlement hook at `package.module:attribute`.

    Raises:
        HookLoadError: With what is wrong and what to do.

    """
    return load_hook(path, SettlementHook)  # type: ignore[type-abstract]  # a protocol to check against, never made


def load_delivery_hook(path: str) -> DeliveryHook:
    """
    Load the delivery hook at `package.module:attribute`.

    Raises:
        HookLoadError: With what is wrong and what to do.

    """
    return load_hook(path, DeliveryHook)  # type: ignore[type-abstract]  # a protocol to check against, never made


def load_hook(path: str, required: type[Hook]) -> Hook:
    """
    Load the object at `package.module:attribute` and check that it has the methods of the protocol `required`.

    Raises:
        HookLoadError: With what is wrong and what to do.

    """
    module_name, attribute = _parts(path)
    found = _attribute(path, _module(path, module_name), attribute)
    methods = _method_names(required)
    hook = found if _is_instance_with(found, methods) else _made(path, found)
    for method in (*methods, *(name for name in _OPTIONAL if hasattr(hook, name))):
        _check_method(path, hook, method)
    for method in (name for name in _OPTIONAL_ON_LOOP if hasattr(hook, name)):
        _check_on_loop(path, hook, method)
    if not isinstance(hook, required):  # pragma: no cover - the methods are there, so the protocol holds
        raise HookLoadError(path, f"it is no {required.__name__}")
    return hook


def _parts(path: str) -> tuple[str, str]:
    module_name, colon, attribute = path.partition(":")
    if not colon:
        raise HookLoadError(path, "it has no colon")
    if not attribute.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        raise HookLoadError(path, "one side of the colon is no Python name")
    return module_name, attribute


def _module(path: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise HookLoadError(path, _missing(name, error.name or "")) from error
    except Exception as error:  # importing runs foreign code, which may raise anything
        problem = f"importing {name} raised {type(error).__name__}: try `python -c 'import {name}'`"
        raise HookLoadError(path, problem) from error


def _missing(wanted: str, missing: str) -> str:
    if wanted == missing or wanted.startswith(f"{missing}."):
        return f"there is no module {missing}: install it, or put its folder on PYTHONPATH"
    return f"{wanted} imports {missing}, which is not installed: install it"


def _attribute(path: str, module: ModuleType, name: str) -> object:
    try:
        found: object = getattr(module, name)
    except AttributeError as error:
        public = [known for known in vars(module) if not known.startswith("_")]
        raise HookLoadError(path, f"{module.__name__} has no {name}, only {', '.join(public) or 'nothing'}") from error
    return found


def _method_names(required: type[object]) -> list[str]:
    return [name for name, _ in inspect.getmembers(required, inspect.isfunction) if not name.startswith("_")]


def _is_instance_with(found: object, methods: list[str]) -> bool:
    # A class has its methods as attributes too, but there they lack their `self`.
    return not inspect.isclass(found) and any(hasattr(found, method) for method in methods)


def _made(path: str, maker: object) -> object:
    if not callable(maker):
        raise HookLoadError(path, f"it is of type {type(maker).__name__}, neither a hook nor something that makes one")
    if not _takes(maker):
        raise HookLoadError(path, "it takes arguments: give each a default, or name a function without any")
    try:
        made: object = maker()
    except ChioError as error:
        raise HookLoadError(path, f"making the hook failed, {error}") from error
    except Exception as error:  # a constructor is foreign code, which may raise anything
        raise HookLoadError(path, f"making the hook raised {type(error).__name__}: mend its constructor") from error
    return made


def _check_method(path: str, hook: object, name: str) -> None:
    method = getattr(hook, name, None)
    if not callable(method):
        raise HookLoadError(path, f"{type(hook).__name__} lacks the method {name}")
    if inspect.iscoroutinefunction(method):
        raise HookLoadError(path, f"{name} is async: make it a plain method, a worker calls it from a thread")
    if not _takes(method, object()):
        raise HookLoadError(path, f"{name} does not take exactly one argument")


def _check_on_loop(path: str, hook: object, name: str) -> None:
    method = getattr(hook, name)
    if not inspect.iscoroutinefunction(method):
        raise HookLoadError(path, f"{name} is no async method: write `async def`, or give it another name")
    if not _takes(method, object()):
        raise HookLoadError(path, f"{name} does not take exactly one argument")


def _takes(function: Callable[..., object], *arguments: object) -> bool:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:
        return True  # some built-in callables have no signature to look at; the call will tell
    return True

"""Functions and classes in a fingerprint: by their code, unless a library that has a version holds them.

Of a function that is no library's, everything counts that its result can depend on: byte code, constants,
defaults, enclosed variables, and the global names that its code loads, with what they stand for, and so on through
the functions and classes that it reaches. Of a class: its bases, methods and attributes. Neither comments, line
numbers and paths of files, nor annotations count; docstrings do, being constants of the code.

What no reading of byte code finds, does not count: names that are made up while the code runs (``getattr``,
``eval``), what it reads from files and from the environment, and changes made to a library's own functions.
"""

import dis
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import site
import sys
import sysconfig
import types

import numpy as np

from skdptune.model_selection._fingerprint_tables import UnknownError

__all__ = [
    "is_library",
    "library_name",
    "version_of",
    "write_builtin",
    "write_class",
    "write_code",
    "write_descriptor",
    "write_function",
    "write_method",
    "write_module",
]

# these are libraries wherever they lie, also in a developer's folder
_LIBRARIES = frozenset(
    "skdptune numpy scipy sklearn joblib cloudpickle pandas polars torch opacus skorch diffprivlib "
    "dp_accounting".split()
)
# of a module: where it lies and what has made it
_UNREAD = frozenset(
    "__name__ __file__ __spec__ __loader__ __builtins__ __cached__ __doc__ __package__ __path__ __annotations__".split()
)
# of a class: bookkeeping of the interpreter and of pickle, there or not
_UNSEEN = frozenset(
    "__module__ __qualname__ __dict__ __weakref__ __doc__ __annotations__ __slotnames__ __static_attributes__ "
    "__firstlineno__ __parameters__ __orig_bases__ __annotate__ __annotate_func__ __annotations_cache__ "
    "__conditional_annotations__ __type_params__ __classdictcell__ _abc_impl __subclasshook__ _member_map_ "
    "_value2member_map_ _member_names_ _hashable_values_ _unhashable_values_ _unhashable_values_map_".split()
)
_UNKEPT = frozenset({"dispatch_cache", "cache_token", "_clear_cache"})  # of functools' own, filled by use


# ---------------------------------------------------------------------- what is a library


@functools.lru_cache(maxsize=1)
def _roots():
    """Return the folders of the standard library and of what is installed."""
    paths = [sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for found in (getattr(site, "getsitepackages", list), getattr(site, "getusersitepackages", list)):
        each = found()
        paths.extend([each] if isinstance(each, str) else each)
    return tuple({os.path.join(os.path.realpath(path), "") for path in paths})


@functools.lru_cache(maxsize=4096)
def _installed(path):
    return os.path.realpath(path).startswith(_roots())


@functools.lru_cache(maxsize=1)
def _distributions():
    return importlib.metadata.packages_distributions()


@functools.lru_cache(maxsize=1024)
def version_of(package):
    """Return the version of an importable package, or None.

    Examples
    --------
    >>> import sklearn
    >>> version_of("sklearn") == sklearn.__version__
    True
    """
    try:
        return importlib.metadata.version(package)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        pass
    stated = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(stated, str):
        return stated
    names = sorted(set(_distributions().get(package, ())))
    return " ".join(f"{name} {importlib.metadata.version(name)}" for name in names) or None


def is_library(name):
    """Return whether the module ``name`` belongs to Python, or to an installed library that states a version.

    Examples
    --------
    >>> is_library("sklearn.metrics"), is_library("json.decoder"), is_library("__main__")
    (True, True, False)
    """
    if not isinstance(name, str) or name == "__main__":
        return False
    top = name.partition(".")[0]
    if top in _LIBRARIES:
        return True
    module = sys.modules.get(name)
    if module is None:
        return False
    file = getattr(module, "__file__", None)
    places = [file] if isinstance(file, str) else list(getattr(module, "__path__", ()))
    if not places:
        return top in sys.stdlib_module_names
    if not all(_installed(place) for place in places):
        return False
    return top in sys.stdlib_module_names or version_of(top) is not None


def library_name(value):
    """Return (module, qualified name) if ``value`` can be found there, in a library; else None."""
    module = getattr(value, "__module__", None)
    if not is_library(module):
        return None
    for attribute in ("__qualname__", "__name__"):  # a class of C may hold what the module hands out
        name = getattr(value, attribute, None)
        found = sys.modules.get(module)
        for part in name.split(".") if isinstance(name, str) else ():
            found = getattr(found, part, None)
        if found is value:
            return module, name
    return None


def _write_library(value, out):
    """Write the name of ``value`` if it is a library's; return whether it is."""
    place = library_name(value)
    if place is None:
        return False
    _note(place[0], out)
    out.text("library", *place)
    return True


def _note(module, out):
    top = module.partition(".")[0]
    if top not in sys.stdlib_module_names:
        out.packages.add(top)


# ---------------------------------------------------------------------- functions


def write_function(value, out):
    """Write a function: by name if it is a library's, else by reference to its code."""
    library = is_library(value.__globals__.get("__name__"))
    if library and _write_library(value, out):
        return
    write = _write_borrowed if library else _write_own
    out.refer(value, value.__qualname__, f"code of function {value.__qualname__}", write, _code_digest)


def _code_digest(value):
    return hashlib.sha256(value.__code__.co_code).hexdigest()


def _write_borrowed(value, out):
    """Write a function that a library has made, a wrapper say: what it reads globally is the library's."""
    module = value.__globals__["__name__"]
    _note(module, out)
    unkept = _UNKEPT if module == "functools" else ()
    write_code(value.__code__, out)
    what = f"function {value.__qualname__}"
    _write_defaults(value, what, out)
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
        if name not in unkept:
            _write_cell(f"variable {name} that {what} encloses", cell, out)
    kept = {name: item for name, item in vars(value).items() if name not in unkept}
    out.mapping(kept.items(), lambda name: f"attribute {name} of {what}")  # what it wraps, for one


def _write_defaults(value, what, out):
    if value.__defaults__ or value.__kwdefaults__:
        out.labelled(f"defaults of {what}", (value.__defaults__, value.__kwdefaults__))
    else:
        out.text("no defaults")


def _write_cell(label, cell, out):
    try:
        content = cell.cell_contents
    except ValueError:
        out.text("empty")
        return
    out.labelled(label, content)


def _write_own(value, out):
    write_code(value.__code__, out)
    what = f"function {value.__qualname__}"
    _write_defaults(value, what, out)
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
        _write_cell(f"variable {name} that {what} encloses", cell, out)
    out.mapping(vars(value).items(), lambda name: f"attribute {name} of {what}")
    loads, imports, names = _reached(value.__code__)
    for name in sorted(loads - _UNREAD):
        out.text("global", name)
        if name not in value.__globals__:
            out.text("of Python" if name in dir(_builtins(value)) else "missing")
            continue
        found = value.__globals__[name]
        if isinstance(found, types.ModuleType):
            write_module(found, out, names)
        else:
            out.labelled(f"global {name} that {what} reads", found)
    for name, level in sorted(imports):
        out.text("import", name, level)
        _write_import(name, level, value.__globals__, out, names)


def _builtins(value):
    found = value.__globals__.get("__builtins__", {})
    return found if isinstance(found, types.ModuleType) else types.SimpleNamespace(**found)


@functools.lru_cache(maxsize=4096)
def _reached(code):
    """Return the global names that ``code`` loads, its imports as (name, level), and all names it uses."""
    loads, imports, names = set(), set(), set(code.co_names)
    level = 0
    before = [None, None]
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            loads.add(step.argval)
        elif step.opname == "IMPORT_NAME":
            # the level lies under the list of names: two constants before
            level = before[0] if isinstance(before[0], int) else 0
            imports.add((step.argval, level))
        if step.opname not in ("EXTENDED_ARG", "CACHE"):
            before = [before[1], step.argval]
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            inner = _reached(const)
            loads, imports, names = loads | inner[0], imports | inner[1], names | inner[2]
    return frozenset(loads), frozenset(imports), frozenset(names)


def write_code(code, out):
    """Write byte code and all that it uses but lines, paths and the names of local variables."""
    arguments = code.co_argcount + code.co_kwonlyargcount
    arguments += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
    out.text("code", code.co_name, code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    for names in (code.co_varnames[:arguments], code.co_names, code.co_freevars, code.co_cellvars):
        out.text(len(names), *names)
    out.raw(code.co_code)
    out.raw(getattr(code, "co_exceptiontable", b""))
    out.text(len(code.co_consts))
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            write_code(const, out)
        else:
            out.value(const)


def write_method(value, out):
    """Write a bound method."""
    out.text("method")
    out.value(value.__func__)
    out.value(value.__self__)


def write_builtin(value, out):
    """Write a function made in C: a library's by name, a method of an object with that object."""
    holder = getattr(value, "__self__", None)
    if holder is not None and not isinstance(holder, types.ModuleType):
        out.text("method", value.__name__)
        out.value(holder)
    elif not _write_library(value, out):
        _write_compiled(value, out)


def _write_compiled(value, out):
    """Write something of an extension module that is no library: the module's file counts."""
    # what numpy calls a ufunc names no module
    for place in (np, sys.modules.get("scipy.special")):
        if isinstance(value, np.ufunc) and getattr(place, value.__name__, None) is value:
            out.text("library", place.__name__, value.__name__)
            return
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    if module is None or getattr(module, name, None) is not value or not _write_file(module, out):
        raise UnknownError(type(value).__name__)
    out.text("compiled", name)


def write_descriptor(value, out):
    """Write what a class made in C has in place of a method."""
    out.text("descriptor", value.__name__)
    out.value(value.__objclass__)


# ---------------------------------------------------------------------- classes


def write_class(value, out):
    """Write a class: by name if it is a library's, else by reference to what it is made of."""
    if _write_library(value, out):
        return
    if not value.__flags__ & (1 << 9):  # made in C
        out.text("type", value.__module__, value.__qualname__)
        return
    out.refer(value, value.__qualname__, f"class {value.__qualname__}", _write_class, _members_digest)


def _members_digest(value):
    return hashlib.sha256(repr(sorted(vars(value))).encode()).hexdigest()


def _write_class(value, out):
    what = f"class {value.__qualname__}"
    out.value(type(value))
    out.labelled(f"bases of {what}", value.__bases__)
    members = {name: member for name, member in vars(value).items() if name not in _UNSEEN}
    if hasattr(value, "__members__") and isinstance(vars(value).get("_member_map_"), dict):  # an Enum
        kept = vars(value)["_member_map_"]
        members = {name: member for name, member in members.items() if name not in kept}
        out.labelled(f"members of {what}", [(name, each.value) for name, each in kept.items()])
    slots = (types.GetSetDescriptorType, types.MemberDescriptorType)
    members = {name: member for name, member in members.items() if not isinstance(member, slots)}
    out.mapping(members.items(), lambda name: f"attribute {name} of {what}")


# ---------------------------------------------------------------------- modules


def write_module(value, out, names=None, above=()):
    """Write a module: a library by name, another one by what ``names`` (all names of some code) finds in it."""
    out.text("module", value.__name__)
    if is_library(value.__name__):
        _note(value.__name__, out)
        return
    found = sorted((names or frozenset()) & vars(value).keys() - _UNREAD)
    if not found and not _write_file(value, out):
        found = sorted(vars(value).keys() - _UNREAD)
    for name in found:
        member = vars(value)[name]
        out.text("member", name)
        if not isinstance(member, types.ModuleType):
            out.labelled(f"{name} of module {value.__name__}", member)
        elif member in above or member is value:  # modules that import each other
            out.text("above", member.__name__)
        else:
            write_module(member, out, names, (*above, value))


def _write_file(module, out):
    """Write the content of a module's file; return whether it has one."""
    file = getattr(module, "__file__", None)
    try:
        with open(file, "rb") as opened:
            content = opened.read()
    except (OSError, TypeError, ValueError):
        return False
    out.text("file")
    out.raw(hashlib.sha256(content).digest())
    return True


def _write_import(name, level, scope, out, names):
    """Write the module that a function imports when it runs; one that is no library is imported now."""
    try:
        absolute = importlib.util.resolve_name("." * level + name, scope.get("__package__")) if level else name
        if _is_library_to_import(absolute):
            out.text("library", absolute)
            _note(absolute, out)
            return
        module = importlib.import_module(absolute)
    except Exception:
        out.text("cannot be imported")
        return
    write_module(module, out, names)
    out.text("of", name)


def _is_library_to_import(name):
    """Return whether a module is a library's, without importing what could take long."""
    top = name.partition(".")[0]
    if top in sys.modules:
        return is_library(top)
    spec = importlib.util.find_spec(top)
    if spec is None:
        raise ImportError(name)
    if top in _LIBRARIES or spec.origin in ("built-in", "frozen"):
        return True
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    known = top in sys.stdlib_module_names or version_of(top) is not None
    return known and bool(places) and all(_installed(place) for place in places)

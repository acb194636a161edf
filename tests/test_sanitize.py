# SPDX-License-Identifier: Apache-2.0
"""Whatever a tool takes, returns or raises becomes bounded, valid, redacted text, and nothing is raised."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import io
import json
import math
import pathlib
import subprocess
import sys
import threading
import time
import types
import uuid
from typing import Any, NamedTuple
from unittest.mock import MagicMock, Mock

import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import acrux_otel
from acrux_otel.sanitize import (
    PAYLOAD_LIMIT,
    STACK_LIMIT,
    Redactor,
    arguments_hash,
    exception_type,
    payload,
    safe_text,
    stack,
    text,
)

REDACTOR = Redactor()
FFFD = "\ufffd"


def no_constants(name: str) -> None:
    raise AssertionError(f"bare {name} in JSON")


def parsed(made: str, limit: int) -> Any:
    assert len(made.encode()) <= limit
    assert "\0" not in made
    return json.loads(made, parse_constant=no_constants)


def shown(value: object, limit: int = PAYLOAD_LIMIT, redactor: Redactor = REDACTOR) -> Any:
    return parsed(payload(value, limit, redactor)[0], limit)


def fastest(work: Any, rounds: int = 5) -> float:
    """Seconds of this thread's CPU, of the best round."""
    best = math.inf
    for _ in range(rounds):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best


class Boom(Exception):
    pass


class Evil:
    """Answers every question about itself by raising."""

    def _boom(self, *_: object) -> Any:
        raise Boom

    __repr__ = __str__ = __iter__ = __len__ = __hash__ = __eq__ = __bool__ = __format__ = _boom
    __getitem__ = __contains__ = __call__ = __int__ = __float__ = __index__ = __lt__ = __dir__ = _boom
    keys = items = values = item = tolist = model_dump = isoformat = _boom

    def __getattribute__(self, name: str) -> Any:
        raise Boom


class EvilClass:
    @property
    def __class__(self) -> Any:
        raise Boom

    def __getattr__(self, name: str) -> Any:
        raise Boom


class EvilMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise Boom

    def __hash__(cls) -> int:
        raise Boom

    def __eq__(cls, other: object) -> bool:
        raise Boom


class MetaEvil(metaclass=EvilMeta):
    pass


class EvilDict(dict):  # type: ignore[type-arg]
    def _boom(self, *_: object) -> Any:
        raise Boom

    __iter__ = __len__ = __getitem__ = __contains__ = __repr__ = keys = items = values = _boom


class EvilList(list):  # type: ignore[type-arg]
    def _boom(self, *_: object) -> Any:
        raise Boom

    __iter__ = __len__ = __getitem__ = __repr__ = _boom


class EvilStr(str):
    def _boom(self, *_: object) -> Any:
        raise Boom

    __str__ = __repr__ = __len__ = __getitem__ = encode = isascii = replace = _boom  # type: ignore[assignment]


class EvilError(Exception):
    def __str__(self) -> str:
        raise Boom

    __repr__ = __str__


class NotAnException(BaseException):
    pass


class Fatal:
    def __str__(self) -> str:
        raise NotAnException


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Place:
    city: str
    api_key: str = "SENTINEL"
    hidden: str = dataclasses.field(default="SENTINEL", repr=False)


@dataclasses.dataclass
class Slotted:
    __slots__ = ("days",)
    days: int


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    city: str
    key: pydantic.SecretStr = pydantic.SecretStr("SENTINEL")
    out: str = pydantic.Field(default="SENTINEL", exclude=True)

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def boom(self) -> str:
        raise Boom


class Point(NamedTuple):
    x: int
    y: int


def evil_values() -> list[object]:
    cycle: dict[str, object] = {}
    cycle["me"] = cycle
    ring: list[object] = [1]
    ring.append({"ring": ring})
    return [
        *(MetaEvil(), MetaEvil),
        *(
            Evil(),
            EvilClass(),
            EvilDict(a=1),
            EvilList([1]),
            EvilStr("a\ud800"),
            Fatal(),
        ),
        *(EvilError("x"), cycle, ring, Mock(), MagicMock(), threading.Lock(), Evil, object(), type, ...),
        *(
            (i for i in "ab"),
            io.StringIO("x"),
            10**6000,
            -(2**200),
            float("nan"),
            -math.inf,
            "\ud83d\0",
            b"\xff\0",
        ),
        *(
            {(1, 2): 3, None: 4, 1.5: 5, EvilStr("k"): 6},
            {EvilClass(): 1},
            memoryview(b"ab"),
            Colour,
            Colour.RED,
        ),
        *(Place("x"), Slotted(1), Model(city="x"), Point(1, 2), range(3), 3j, {1: {2}}.items(), slice(1)),
    ]


EVIL = evil_values()  # by index: pytest and hypothesis look too closely at their parameters
each_evil = pytest.mark.parametrize("n", range(len(EVIL)))

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(10**400), max_value=10**400),
    st.floats(),
    st.text(st.characters()),  # surrogates and NUL included
    st.text(alphabet='ab:="\\\n sk-{[é😀\ud800\0', max_size=80),
    st.binary(max_size=30),
    st.decimals(),
    st.datetimes(),
    st.uuids(),
    # Not the first two: hypothesis itself compares their class.
    st.integers(min_value=2, max_value=len(EVIL) - 1).map(lambda n: EVIL[n]),
)
keys = st.one_of(
    st.text(st.characters(), max_size=12), st.sampled_from(["password", "rows", 1, None, (1, 2), Colour.RED])
)
anything = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=12),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=8),
        st.sets(st.one_of(st.integers(), st.text(max_size=5)), max_size=5),
        inner.map(lambda child: collections.deque([child])),
        inner.map(lambda child: types.MappingProxyType({"inside": child})),
        inner.map(lambda child: ValueError(child)),
    ),
    max_leaves=60,
)
thorough = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class TestPayload:
    @thorough
    @given(anything, st.integers(min_value=16, max_value=3000))
    def test_any_value_parses_within_any_limit(self, value: object, limit: int) -> None:
        """Any value gives valid JSON without bare constants, in UTF-8, within the limit."""
        made, original = payload(value, limit, REDACTOR)
        parsed(made, limit)
        assert original is None or original >= len(made.encode())

    @each_evil
    @pytest.mark.parametrize("limit", [16, 64, PAYLOAD_LIMIT])
    def test_a16_a_hostile_value_costs_only_itself(self, n: int, limit: int) -> None:
        """A value that raises on every question is a placeholder and its siblings stay."""
        shown(EVIL[n], limit)
        assert shown({"q": "short", "evil": EVIL[n]}, 4000)["q"] == "short"
        assert shown([EVIL[n], "short"], 4000)[1] == "short"

    def test_a16_placeholders_stand_only_where_needed(self) -> None:
        """Cycles, locks, bytes, odd keys and NaN are shown as text beside their good siblings."""
        cycle: dict[str, object] = {"n": 1}
        cycle["me"] = cycle
        assert shown({"x": cycle}) == {"x": {"n": 1, "me": "<circular>"}}
        assert shown([Evil(), threading.Lock(), b"\x00\xff", b"abc"]) == [
            "<Evil>",
            "<lock>",
            "<2 bytes>",
            "abc",
        ]
        assert shown({(1, 2): 3, None: 4, True: 5}) == {"(1, 2)": 3, "null": 4, "true": 5}
        assert shown([math.nan, math.inf, -math.inf]) == ["NaN", "Infinity", "-Infinity"]
        assert shown([math.nan] * 20) == ["NaN"] * 20
        assert shown([2**63 - 1, -(2**63), 2**63]) == [2**63 - 1, -(2**63), str(2**63)]
        assert shown([2**63] * 20) == [str(2**63)] * 20

    def test_containers_are_read_by_the_builtin_methods(self) -> None:
        """A container whose own methods raise is shown by what it holds."""
        assert shown([EvilDict(a=1), EvilList([1]), EvilStr("a")]) == [{"a": 1}, [1], "a"]

    def test_the_same_object_twice_is_no_cycle(self) -> None:
        """Only an object inside itself is circular."""
        child = {"n": 1}
        assert shown({"a": child, "b": [child, child]}) == {"a": child, "b": [child, child]}

    def test_r09_rich_values_are_shown_by_their_text(self) -> None:
        """UUID, datetime, Decimal, Enum, Path and named tuples have text forms, enums by value."""
        made = shown(
            {
                "id": uuid.UUID(int=3),
                "at": datetime.datetime(2026, 1, 2, 3, 4),
                "day": datetime.date(2026, 1, 2),
                "d": decimal.Decimal("1.10"),
                "e": Colour.RED,
                "level": Level.HIGH,
                "path": pathlib.PurePosixPath("/a/b"),
                "point": Point(1, 2),
                "set": {3, 1, 2},
                Colour.RED: 1,
            }
        )
        assert made == {
            "id": str(uuid.UUID(int=3)),
            "at": "2026-01-02T03:04:00",
            "day": "2026-01-02",
            "d": "1.10",
            "e": "red",
            "level": 3,
            "path": "/a/b",
            "point": [1, 2],
            "set": [1, 2, 3],
            "red": 1,
        }

    def test_objects_with_declared_fields_are_walked_without_their_code(self) -> None:
        """Dataclasses and pydantic models show their stored fields; what they keep out of repr stays out."""
        assert shown(Place("Kathmandu")) == {"city": "Kathmandu", "api_key": "[REDACTED]"}
        assert shown(Slotted(3)) == {"days": 3}
        assert shown(Model(city="Kathmandu", extra=[1])) == {
            "city": "Kathmandu",
            "key": "[REDACTED]",
            "extra": [1],
        }

    def test_numpy_values_are_plain(self) -> None:
        """NumPy scalars and small arrays are numbers, large arrays a placeholder."""
        np = pytest.importorskip("numpy")
        assert shown({"a": np.float64(1.5), "b": np.int64(2), "c": np.arange(3), "d": np.bool_(True)}) == {
            **{"a": 1.5, "b": 2, "c": [0, 1, 2], "d": True}
        }
        assert shown(np.zeros(10**6)) == "<ndarray float64 (1000000,)>"

    def test_iterators_are_not_consumed(self) -> None:
        """Generators, files and iterators keep all their items."""
        numbers, file, pairs = (i for i in range(3)), io.StringIO("abc"), iter({1: 2}.items())
        assert shown([numbers, file, pairs]) == ["<generator>", "<StringIO>", "<dict_itemiterator>"]
        assert [*numbers] == [0, 1, 2]
        assert file.read() == "abc"
        assert [*pairs] == [(1, 2)]

    def test_mocks_are_not_called(self) -> None:
        """An object that answers to everything is asked nothing."""
        mock = MagicMock()
        assert shown({"m": mock}) == {"m": "<MagicMock>"}
        assert mock.mock_calls == []

    def test_a18_small_siblings_survive_a_huge_one(self) -> None:
        """A cut value parses, keeps its small parts, flags the cut and tells the exact original size."""
        value = {"q": "short", "rows": ["é😀" * 1000] * 50, "n": 3}
        made, original = payload(value, 1000, REDACTOR)
        read = parsed(made, 1000)
        assert (read["q"], read["n"]) == ("short", 3)
        assert read["rows"][0].startswith("é😀é😀")
        assert read["rows"][-1] == f"… {50 - len(read['rows']) + 1} more"
        assert original == len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())

    def test_nested_small_siblings_survive(self) -> None:
        """The budget is shared out at every level, to what is small first."""
        read = shown(
            {"a": {"big": "x" * 10**6, "id": 7, "tags": ["t"]}, "b": {"big": [1] * 10**6, "id": 8}}, 400
        )
        assert (read["a"]["id"], read["a"]["tags"], read["b"]["id"]) == (7, ["t"], 8)
        assert read["a"]["big"].endswith("…")
        assert read["b"]["big"][-1].startswith("… ")

    def test_a_list_keeps_its_first_items_whole(self) -> None:
        """Of many rows the first are shown whole rather than all of them in shreds."""
        rows = [{"id": i, "name": f"row {i}"} for i in range(10_000)]
        read = shown({"rows": rows, "n": 10_000})
        assert read["n"] == 10_000
        assert len(read["rows"]) > 300
        assert read["rows"][:-1] == rows[: len(read["rows"]) - 1]
        assert read["rows"][-1] == f"… {10_001 - len(read['rows'])} more"

    @pytest.mark.parametrize(
        "value",
        [[1, 2, 3] * 1000, [1.5] * 2000, {"a": ["x"] * 500}, "é" * 8000, {f"key {i}": i for i in range(900)}],
        ids=["ints", "floats", "strings", "text", "dict"],
    )
    def test_what_fits_is_not_cut(self, value: object) -> None:
        """Below the limit everything is kept and no original size is given."""
        made, original = payload(value, PAYLOAD_LIMIT, REDACTOR)
        assert original is None
        assert json.loads(made) == value

    def test_depth_is_bounded(self) -> None:
        """A deep nest ends in a placeholder, also when the user's stack is nearly used up."""
        nest: list[Any] = []
        for _ in range(10_000):
            nest = [nest]
        made, original = payload(nest, PAYLOAD_LIMIT, REDACTOR)
        assert "<deep>" in made
        assert original is not None
        parsed(made, PAYLOAD_LIMIT)

        def down() -> None:
            parsed_at_the_edge.append(payload({"a": [nest, "é"]}, 200, REDACTOR)[0])
            down()

        parsed_at_the_edge: list[str] = []
        with pytest.raises(RecursionError):
            down()
        for made in parsed_at_the_edge:
            parsed(made, 200)

    def test_a_dict_that_other_threads_change_is_no_problem(self) -> None:
        """Recording an object that changes meanwhile neither raises nor breaks the JSON."""
        value: dict[str, Any] = {"rows": []}
        stop = threading.Event()

        def change() -> None:
            n = 0
            while not stop.is_set():
                n += 1
                value[f"k{n % 100}"] = n
                value.pop(f"k{(n + 50) % 100}", None)

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for _ in range(500):
                shown(value, 300)
        finally:
            stop.set()
            thread.join()

    @pytest.mark.parametrize(
        ("make", "milliseconds"),
        [
            (lambda: {"data": "x" * 5_000_000, "q": "short"}, 5),
            (lambda: {"data": "é" * 2_500_000, "q": "short"}, 5),
            (lambda: b"x" * 5_000_000, 5),
            (lambda: list(range(10_000_000)), 5),
            (lambda: {"a": {f"k{i}": i for i in range(300_000)}}, 15),
            (lambda: {"words": [f"word {i}" for i in range(300_000)]}, 15),
            (lambda: [{"id": i, "tags": ["a", {"b": i}]} for i in range(100_000)], 15),
        ],
        ids=["text", "utf8", "bytes", "ints", "dict", "words", "rows"],
    )
    def test_a_huge_value_is_cheap(self, make: Any, milliseconds: int) -> None:
        """The time of a payload is bounded, whatever the size of the value: 5 MB of text take below 5 ms."""
        value = make()
        assert fastest(lambda: payload(value, PAYLOAD_LIMIT, REDACTOR), 15) < milliseconds / 1000


class TestText:
    @thorough
    @given(anything, st.integers(min_value=0, max_value=300))
    def test_any_value_is_valid_bounded_text(self, value: object, limit: int) -> None:
        """Any value gives text that encodes, without NUL, within the limit; redacted or not."""
        for made in (text(value, limit), safe_text(value, limit, REDACTOR)):
            assert type(made) is str
            assert len(made.encode()) <= limit
            assert "\0" not in made

    @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40).filter(lambda t: "\0" not in t))
    def test_clean_text_is_unchanged(self, value: str) -> None:
        """Valid text below the limit stays as it is."""
        assert text(value, 400) == value

    @pytest.mark.parametrize(
        ("value", "limit", "expected"),
        [
            ("a\ud800b\0", 100, f"a{FFFD}b{FFFD}"),
            ("é😀", 5, "é"),
            ("é😀", 6, "é😀"),
            ("\0\0", 5, FFFD),
            (None, 10, "None"),
            (3, 10, "3"),
            (b"abc", 10, "abc"),
            ([1, "a"], 20, '[1,"a"]'),
            ("abc", 0, ""),
            ("abc", -1, ""),
        ],
    )
    def test_text_of(self, value: object, limit: int, expected: str) -> None:
        """Text is cut between code points, and what UTF-8 or OTLP cannot say is replaced."""
        assert text(value, limit) == expected

    def test_text_of_what_has_none(self) -> None:
        """A value whose text raises is named by its type."""
        made = [text(value, 20) for value in (Evil(), Fatal(), EvilError())]
        assert made == ["<Evil>", "<Fatal>", "<EvilError>"]
        assert text(EvilStr("a\0"), 20) == f"a{FFFD}"
        assert text(10**6000, 40) == "<int of 19932 bits>"

    def test_a_huge_text_is_cut_before_it_is_read(self) -> None:
        """A 5 MB string, also in an exception, costs as much as a short one."""
        for value in (
            "x" * 5_000_000,
            ValueError("é" * 5_000_000),
            KeyError("x" * 5_000_000),
            [["x" * 5_000_000]],
        ):
            assert fastest(lambda value=value: safe_text(value, 1024, REDACTOR)) < 0.002

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
    def test_a_wish_to_stop_passes(self, kind: type[BaseException]) -> None:
        """KeyboardInterrupt and SystemExit are the only things that come out."""

        class Stop:
            def __str__(self) -> str:
                raise kind

        with pytest.raises(kind):
            text(Stop(), 10)


def fail(depth: int, error: BaseException) -> BaseException:
    """The error, raised this many frames deep."""

    def down(left: int) -> None:
        if left == 0:
            raise error
        down(left - 1)

    try:
        down(depth)
    except BaseException as caught:
        return caught
    raise AssertionError


class TestStack:
    def test_it_reads_like_a_traceback(self) -> None:
        """The text begins and ends as Python's own, with the lines of code."""
        made = stack(fail(2, ValueError("no coordinates")), STACK_LIMIT, REDACTOR).splitlines()
        assert made[0] == "Traceback (most recent call last):"
        assert made[1].startswith(f'  File "{__file__}", line ')
        assert made[1].endswith(", in fail")
        assert made[-2] == "    raise error"
        assert made[-1] == "ValueError: no coordinates"

    def test_causes_come_before_their_consequence(self) -> None:
        """A chain is told as Python tells it, and one exception that is its own cause ends."""
        cause = fail(1, KeyError("city"))
        error = RuntimeError("outer")
        error.__cause__ = cause
        made = stack(fail(1, error), STACK_LIMIT, REDACTOR)
        assert (
            made.index("KeyError: 'city'") < made.index("direct cause of the following") < made.index("outer")
        )
        assert made.splitlines()[-1] == "RuntimeError: outer"
        cause.__cause__ = error
        assert stack(error, STACK_LIMIT, REDACTOR).count("direct cause") == 1
        error.__cause__ = None
        error.__context__ = cause
        error.__suppress_context__ = False
        assert "During handling" in stack(error, STACK_LIMIT, REDACTOR)

    def test_a_deep_recursion_is_bounded(self) -> None:
        """Of a RecursionError the first and the last frames are shown, and how many are not."""

        def forever() -> None:
            forever()

        with pytest.raises(RecursionError) as caught:
            forever()
        made = stack(caught.value, STACK_LIMIT, REDACTOR)
        assert fastest(lambda: stack(caught.value, STACK_LIMIT, REDACTOR)) < 0.005
        assert made.count("  File ") == 20
        assert " more frames ..." in made
        assert made.splitlines()[-1].startswith("RecursionError: maximum recursion")

    @settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(anything, st.integers(min_value=0, max_value=2000), st.integers(min_value=0, max_value=40))
    def test_any_exception_within_any_limit(self, argument: object, limit: int, depth: int) -> None:
        """Any exception gives valid text within the limit, and is not changed."""
        error = ValueError(argument)
        caught = fail(depth, error)
        trace = caught.__traceback__
        made = stack(caught, limit, REDACTOR)
        assert len(made.encode()) <= limit
        assert "\0" not in made
        assert caught.__traceback__ is trace

    def test_the_message_outlives_the_frames(self) -> None:
        """Where space is short frames go first, the last line stays."""
        made = stack(fail(50, ValueError("no coordinates")), 300, REDACTOR)
        assert made.startswith("Traceback")
        assert made.endswith("\nValueError: no coordinates")
        assert stack(fail(50, ValueError("no coordinates")), 30, REDACTOR) == "ValueError: no coordinates"

    def test_an_exception_that_hides_everything(self) -> None:
        """Frames and causes are read past whatever the exception's class does with its attributes."""

        class Hidden(Exception):
            def __getattribute__(self, name: str) -> Any:
                raise Boom

            __str__ = __repr__ = __getattribute__  # type: ignore[assignment]

        error = Hidden("x")
        BaseException.__cause__.__set__(error, KeyError("city"))  # type: ignore[attr-defined]
        made = stack(fail(1, error), STACK_LIMIT, REDACTOR)
        assert made.startswith("Traceback (most recent call last):\nKeyError: 'city'\n\nThe above exception")
        assert "    raise error\n" in made
        assert made.endswith("Hidden: <Hidden>")

    def test_an_exception_whose_text_raises(self) -> None:
        """Its type and frames are told all the same."""
        made = stack(fail(1, EvilError("x")), STACK_LIMIT, REDACTOR)
        assert made.endswith("EvilError: <EvilError>")
        assert "raise error" in made

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="ExceptionGroup is new in 3.11")
    def test_members_of_a_group_are_named(self) -> None:
        """A group shows what is in it."""
        group = ExceptionGroup("two", [ValueError("a"), KeyError("b")])  # noqa: F821
        assert stack(group, STACK_LIMIT, REDACTOR).endswith(
            "+ ValueError: a\n  + KeyError: 'b'\nExceptionGroup: two (2 sub-exceptions)"
        )

    def test_exception_type(self) -> None:
        """The type is named as OpenTelemetry names it."""
        assert exception_type(ValueError()) == "ValueError"
        assert exception_type(json.JSONDecodeError("x", "", 0)) == "json.decoder.JSONDecodeError"
        assert exception_type(TestStack._Inner()).endswith("test_sanitize.TestStack._Inner")
        assert exception_type(type("B", (Exception,), {"__module__": "m\ud800"})()) == f"m{FFFD}.B"

    class _Inner(Exception):
        pass


SECRETS = {
    "openai": "sk-proj-abcDEF123456ghiJKL789",
    "github": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "slack": "xoxb-123456789012-abcdefghijkl",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "google": "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
}


class TestRedaction:
    @pytest.mark.parametrize(
        "name",
        [
            *(
                "api_key",
                "apikey",
                "apiKey",
                "API-KEY",
                "X-Api-Key",
                "OPENAI_API_KEY",
                "openaiApiKey",
                "api_key_2",
            ),
            *(
                "token",
                "access_token",
                "accessToken",
                "refresh_token",
                "id_token",
                "auth_token",
                "csrftoken",
                "TOKEN",
            ),
            *(
                "password",
                "Password",
                "passwd",
                "db_password",
                "userPassword",
                "passphrase",
                "DB_PASS",
                "pwd",
            ),
            *("secret", "client_secret", "clientSecret", "aws_secret_access_key", "SECRET_KEY", "secrets"),
            *(
                "authorization",
                "Proxy-Authorization",
                "auth",
                "cookie",
                "Set-Cookie",
                "cookies",
                "session_cookie",
            ),
            *(
                "private_key",
                "privateKey",
                "signing_key",
                "credentials",
                "card_number",
                "cvv",
                "sessionid",
                "bearer",
            ),
        ],
    )
    def test_a_secret_name_hides_any_value(self, name: str) -> None:
        """Under a secret's name the value is masked wholly, whatever its type and depth."""
        assert REDACTOR.secret_key(name)
        for value in ("SENTINEL", ["SENTINEL"], {"a": "SENTINEL"}, 5, Place("SENTINEL")):
            assert shown({name: value, "n": 1}) == {name: "[REDACTED]", "n": 1}
        for form in (
            f"{name}=SENTINEL",
            f"{name}: SENTINEL",
            f'{{"{name}": "SENTINEL"}}',
            f"{{'{name}': 'SENTINEL'}}",
        ):
            assert "SENTINEL" not in safe_text(f"bad call {form} here", 1024, REDACTOR)

    @pytest.mark.parametrize(
        "name",
        [
            *(
                "token_count",
                "max_tokens",
                "tokens",
                "total_tokens",
                "tokenizer",
                "next_page_token",
                "eos_token",
            ),
            *(
                "author",
                "authors",
                "authority",
                "secretary",
                "keyboard",
                "passenger",
                "passengers",
                "monkey",
                "key",
            ),
            *(
                "primary_key",
                "public_key",
                "sort_key",
                "bypass",
                "compass",
                "password_length",
                "session_id",
                "cookiecutter",
            ),
            *(
                "api_key_id",
                "credential_type",
                "keywords",
                "first_token",
                "card",
                "auth_type",
                "oauth_enabled",
            ),
        ],
    )
    def test_a_name_that_only_looks_like_one_hides_nothing(self, name: str) -> None:
        """Names that merely contain a secret's name are left alone."""
        assert not REDACTOR.secret_key(name)
        assert shown({name: "visible"}) == {name: "visible"}
        for form in (f"{name}=402913 ok", f'{{"{name}": "visible"}}', f"{name}: visible, see"):
            assert safe_text(form, 1024, REDACTOR) == form

    @pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
    def test_a_token_is_known_by_its_shape(self, secret: str) -> None:
        """Well-known tokens are masked wherever they stand, also as a key."""
        assert safe_text(f"key {secret} is wrong", 1024, REDACTOR) == "key [REDACTED] is wrong"
        assert secret not in payload({"note": [f"({secret})"], secret: 1}, 1024, REDACTOR)[0]

    @pytest.mark.parametrize(
        ("given_text", "expected"),
        [
            ("GET https://h/x?api_key=SENTINEL&q=1 failed", "GET https://h/x?api_key=[REDACTED]&q=1 failed"),
            ("https://h/x?q=1&key=SENTINEL", "https://h/x?q=1&key=[REDACTED]"),
            ("https://h/x?sig=SENTINEL#top", "https://h/x?sig=[REDACTED]"),
            ("postgres://me:SENTINEL@db/x", "postgres://[REDACTED]@db/x"),
            ("Authorization: Bearer SENTINEL\nok", "Authorization: [REDACTED]\nok"),
            ("Cookie: a=SENTINEL; b=SENTINEL\nok", "Cookie: [REDACTED]\nok"),
            ("sent Bearer SENTINEL123 there", "sent Bearer [REDACTED] there"),
            ("{'Authorization': 'Basic SENTINEL', 'x': 1}", "{'Authorization': '[REDACTED]', 'x': 1}"),
            (r'{"password": "a\"SENTINEL", "n": 1}', '{"password": "[REDACTED]", "n": 1}'),
            (r"{\"password\": \"SENTINEL\", \"n\": 1}", r"{\"password\": \"[REDACTED]\", \"n\": 1}"),
            ("Client(api_key='SENTINEL', n=1)", "Client(api_key='[REDACTED]', n=1)"),
            ("password = SENTINEL", "password = [REDACTED]"),
            ("API key: SENTINEL given", "API key: [REDACTED] given"),
            ("error: token=SENTINEL", "error: token=[REDACTED]"),
            ('"api_keys": ["SENTINEL", "SENTINEL"]', '"api_keys": [REDACTED]'),
            (
                "x -----BEGIN RSA PRIVATE KEY-----\nSENTINEL\n-----END RSA PRIVATE KEY----- y",
                "x [REDACTED] y",
            ),
            ("def f(token: str) -> dict:", "def f(token: str) -> dict:"),
            ("password: null, n: 1", "password: null, n: 1"),
            ("Basic authentication, bearer of news", "Basic authentication, bearer of news"),
            ("git clone https://github.com/a/b", "git clone https://github.com/a/b"),
            ("risk-free sk-learn-contrib-lamps", "risk-free sk-learn-contrib-lamps"),
        ],
    )
    def test_secrets_inside_text(self, given_text: str, expected: str) -> None:
        """URLs, headers, JSON, reprs and key=value text lose their secrets only, once and again."""
        made = safe_text(given_text, 1024, REDACTOR)
        assert made == expected
        assert safe_text(made, 1024, REDACTOR) == expected

    def test_a17_secrets_leave_messages_and_stacks(self) -> None:
        """A key in an exception's URL is in neither the message nor the stack, its cause's neither."""
        cause = fail(1, OSError("https://h/?api_key=SENTINEL"))
        error = RuntimeError("call failed: Authorization: Bearer SENTINEL")
        error.__cause__ = cause
        for made in (stack(fail(1, error), STACK_LIMIT, REDACTOR), safe_text(error, 1024, REDACTOR)):
            assert "SENTINEL" not in made
            assert "[REDACTED]" in made
        assert str(error) == "call failed: Authorization: Bearer SENTINEL"

    @settings(max_examples=400, deadline=None)
    @given(
        st.sampled_from(
            [
                *SECRETS.values(),
                'password="SENTINEL SENTINEL"',
                "https://u:SENTINELSENTINEL@h",
                "api_key=SENTINELSENTINEL",
            ]
        ),
        st.integers(min_value=0, max_value=60),
        st.sampled_from([0, 512, 500, 530]),
        st.sampled_from(["word ", "xxxxx", "é", "a\n"]),
        st.sampled_from(["", "password='" + "p" * 450 + "' "]),
        st.booleans(),
    )
    def test_a_secret_across_the_cut_does_not_leak_its_first_half(
        self, secret: str, before: int, margin: int, filler: str, early: str, more: bool
    ) -> None:
        """Wherever a cut falls, inside a secret too, no part of it is shown."""
        limit = 200
        start = max(limit + margin - before - len(early) - 1, 0)
        value = early + (filler * 1000)[:start] + " " + secret + (" tail" * 1000 if more else "")
        telling = secret[secret.index("S") :][:9] if "SENTINEL" in secret else secret[:14]
        assert telling not in safe_text(value, limit, REDACTOR)
        assert telling not in payload({"v": value}, limit, REDACTOR)[0]

    def test_what_is_half_seen_at_the_cut_is_not_shown(self) -> None:
        """A secret too short to be known by what the cut leaves of it is dropped, a long one masked."""
        early = f"password='{'p' * 600}' "  # its mask is shorter, and moves the cut into the limit
        begun = early + "." * (200 + 512 - len(early) - 10) + " sk-proj-abcDEF123456ghiJKL789"
        assert len(begun) > 712
        made = safe_text(begun, 200, REDACTOR)
        assert made.startswith("password='[REDACTED]' ...")
        assert "sk-pr" not in made
        assert safe_text(f"see eyJ{'a' * 1000}.b.c", 200, REDACTOR) == "see [REDACTED]"

    @pytest.mark.parametrize(
        "text_of_64k",
        [
            "a" * 65536,
            "a_" * 32768,
            "token" * 13107,
            "token=" * 10922,
            "token= " * 9362,
            'token="' * 9362,
            "token:'\\" * 8192,
            "token=\\\"'" * 7281,
            "token=[" * 9362,
            "://" * 21845,
            "https://" + "a" * 65528,
            "://a:" * 13107,
            "eyJ" * 21845,
            "eyJaaaaaaaa" * 5957,
            "eyJaaaaaaaa." * 5461,
            " eyJ-" * 13107,
            "-----BEGIN " * 5957,
            "-----BEGIN A-----" * 3855,
            "sk-" * 21845,
            " sk-a" * 13107,
            "bearer " * 9362,
            "bearer " + "a" * 65529,
            "key \t" * 13107,
            "key" + " " * 65533,
            ":" * 65536,
            "=" * 65536,
            "\\" * 65536,
            "api api api key" * 4369,
            "Authorization: " * 4369,
            "authorization:'" * 4369,
            "gh" * 32768,
            "xox" * 21845,
            "a=b&" * 16384,
            "token_" * 10922 + "=x",
            "É" * 65536,
            "aA" * 32768 + "=key",
        ],
        ids=lambda value: value[:12].encode("unicode_escape").decode(),
    )
    @pytest.mark.parametrize("cut", [False, True])
    def test_no_text_takes_long(self, text_of_64k: str, cut: bool) -> None:
        """The patterns take linear time on 64 KiB made to make them backtrack."""
        assert fastest(lambda: REDACTOR.mask("x", text_of_64k, cut=cut), 2) < 0.25

    def test_no_key_takes_long(self) -> None:
        """A long key is judged by its end, in bounded time."""
        assert fastest(lambda: REDACTOR.secret_key("aA_key" * 20000 + "_password"), 2) < 0.01
        assert REDACTOR.secret_key("x" * 1000 + "_password")

    def test_the_hook_sees_each_text_with_its_name(self) -> None:
        """The hook gets the innermost key and the text after the default masks, and its answer counts."""
        seen = []

        def hook(key: str, value: str) -> str:
            seen.append((key, value))
            return value.replace("Kathmandu", "K.")

        redactor = Redactor(hook)
        value = {
            "city": "Kathmandu",
            "days": 3,
            "tags": ["a"],
            "url": "http://h/?token=x",
            "in": {"password": "x"},
        }
        made = shown(value, redactor=redactor)
        assert made == {
            **{"city": "K.", "days": 3, "tags": ["a"], "url": "http://h/?token=[REDACTED]"},
            "in": {"password": "[REDACTED]"},
        }
        assert seen == [("city", "Kathmandu"), ("tags", "a"), ("url", "http://h/?token=[REDACTED]")]
        assert safe_text("Kathmandu", 100, redactor, "errorDetail") == "K."
        assert stack(ValueError("Kathmandu"), 1000, redactor).endswith("ValueError: K.")
        assert [key for key, _ in seen[3:]] == ["errorDetail", "exception.stacktrace"]

    @pytest.mark.parametrize("answer", [None, b"x", 5, Boom("SENTINEL"), NotAnException("SENTINEL")])
    def test_a_failing_hook_masks(
        self, answer: object, caplog: pytest.LogCaptureFixture, monkeypatch: Any
    ) -> None:
        """A hook that raises or returns no text hides the value and says so once, without the value."""
        monkeypatch.setattr("acrux_otel.verdict._warned", set())

        def hook(key: str, value: str) -> Any:
            if isinstance(answer, BaseException):
                raise answer
            return answer

        redactor = Redactor(hook)
        assert shown({"a": "SENTINEL", "b": ["SENTINEL"], "n": 1}, redactor=redactor) == {
            **{"a": "[REDACTED]", "b": ["[REDACTED]"], "n": 1}
        }
        assert safe_text("SENTINEL", 100, redactor) == "[REDACTED]"
        assert stack(ValueError("SENTINEL"), 100, redactor) == "[REDACTED]"
        assert len(caplog.records) == 1
        assert "SENTINEL" not in caplog.text

    @given(st.text(st.characters(), max_size=200), st.integers(min_value=16, max_value=100))
    def test_any_answer_of_a_hook_is_made_valid(self, answer: str, limit: int) -> None:
        """What a hook returns is bounded and cleaned like everything else."""
        redactor = Redactor(lambda key, value: answer)
        shown({"a": "x", "b": ["y"]}, limit, redactor)
        for made in (safe_text("x", limit, redactor), stack(ValueError("x"), limit, redactor)):
            assert len(made.encode()) <= limit


class TestArgumentsHash:
    KEY = b"k" * 16

    @thorough
    @given(st.dictionaries(keys, anything, max_size=8), st.randoms())
    def test_order_of_keys_does_not_count(self, value: dict[Any, Any], random: Any) -> None:
        """The same arguments in another order have the same hash."""
        pairs = [*value.items()]
        random.shuffle(pairs)
        made = arguments_hash(value, self.KEY)
        assert arguments_hash(dict(pairs), self.KEY) == made
        assert len(made) == 16
        assert int(made, 16) >= 0

    def test_different_arguments_differ(self) -> None:
        """Values, nesting, types, long texts' ends and the key all count."""
        values = [
            *(
                {},
                {"a": 1},
                {"a": "1"},
                {"a": True},
                {"a": None},
                {"a": [1]},
                {"a": [[1]]},
                {"a": {"1": 1}},
                {"b": 1},
            ),
            *({"a": 1, "b": 2}, {"a": 12}, ["a", "b"], ["ab"], {"a": "x" * 10**6}, {"a": "x" * 10**6 + "y"}),
            *({"a": ["x"] * 2000}, {"a": ["x"] * 1999 + ["y"]}, {"a": {1, 2}}, {"a": {1, 3}}, {"a": 1.5}),
        ]
        hashes = [arguments_hash(value, self.KEY) for value in values]
        assert len(set(hashes)) == len(values)
        assert arguments_hash({}, b"other") != hashes[0]
        assert arguments_hash({}, b"k" * 200) != arguments_hash({}, b"k" * 201)

    def test_equal_as_json_is_equal(self) -> None:
        """A tuple is a list and 1.0 is 1."""
        assert arguments_hash({"a": (1, 2.0)}, self.KEY) == arguments_hash({"a": [1.0, 2]}, self.KEY)

    def test_it_is_the_same_in_every_process(self) -> None:
        """Neither hash seed nor the order of sets counts."""
        program = (
            "from acrux_otel.sanitize import arguments_hash as h;"
            "print(h({'s': {'a', 'b', 'c', ('d', 1)}, 'n': frozenset('xyz')}, b'key'))"
        )
        seen = {
            subprocess.run(
                [sys.executable, "-c", program],
                env={"PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout
            for seed in ("0", "1", "2")
        }
        assert len(seen) == 1

    @each_evil
    def test_it_never_raises(self, n: int) -> None:
        """Any argument has a hash."""
        assert len(arguments_hash({"a": EVIL[n]}, self.KEY)) == 16

    def test_a_huge_argument_is_cheap(self) -> None:
        """The walk is bounded."""
        for value in ("x" * 5_000_000, list(range(5_000_000)), {i: i for i in range(200_000)}):
            assert fastest(lambda value=value: arguments_hash(value, self.KEY)) < 0.01


def test_everything_passes_the_real_encoder() -> None:
    """One span with the text of every hostile value survives the OTLP encoder, byte for byte."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    written: dict[str, str] = {}
    span = provider.get_tracer("t").start_span(text("execute \ud800", 100))
    for n, value in enumerate([*evil_values(), "\ud800\0", {"\ud800": "\udfff"}, ValueError("\ud800")]):
        error = fail(3, ValueError(value))
        attributes = {
            f"payload.{n}": payload(value, 1000, REDACTOR)[0],
            f"text.{n}": text(value, 100),
            f"stack.{n}": stack(error, 2000, REDACTOR),
            f"type.{n}": exception_type(error),
        }
        written.update(list(attributes.items())[:3])
        span.add_event("exception", attributes)
    span.end()
    data = encode_spans(exporter.get_finished_spans()).SerializeToString()
    read = ExportTraceServiceRequest.FromString(data).resource_spans[0].scope_spans[0].spans[0]
    assert read.name == f"execute {FFFD}"
    arrived = {a.key: a.value.string_value for event in read.events for a in event.attributes}
    assert {key: arrived[key] for key in written} == written


def test_importing_it_is_light() -> None:
    """The sanitizer brings in neither OpenTelemetry nor pydantic, hashlib or asyncio."""
    program = (
        "import sys, types; package = types.ModuleType('acrux_otel'); package.__path__ = [sys.argv[1]];"
        "sys.modules['acrux_otel'] = package; import acrux_otel.sanitize; print(*sys.modules)"
    )
    made = subprocess.run(
        [sys.executable, "-c", program, str(pathlib.Path(acrux_otel.__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.split()
    assert "acrux_otel.sanitize.redact" in made
    assert not {"opentelemetry", "pydantic", "hashlib", "asyncio"} & {*made}

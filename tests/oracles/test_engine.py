"""The engine of filters and transformations, against the reference evaluator, one by one."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker import reference
from broker.documents import Message, parse_message
from broker.engine import Engine
from broker.errors import QueryError, ResultError
from broker.limits import ResultLimits
from broker.matching import YFilter
from broker.message_factory import OutputFormat, make_output
from broker.plan.candidates import candidates_of
from broker.plan.group_plan import NotGroupedError, PathTable, group_plan
from broker.query import Filter, Flwr, Query, parse
from broker.runtime.groups import Groups
from broker.runtime.transformer import Choice
from tests.conftest import DATA
from tests.oracles.dtds import dtd_of
from tests.oracles.strategies import PROLOG, Case, QueryMaker, random_message, transformations

LIMITS = ResultLimits()


def parse_flwr(text: str) -> Flwr:
    query = parse(text)
    assert isinstance(query, Flwr)
    return query


@given(transformations())
def test_candidates_are_the_messages_with_a_result(case: Case) -> None:
    query = parse_flwr(case.query)
    message = parse_message(case.data)
    candidates = candidates_of(query)
    has_result = bool(reference.transform(query, message).groups)
    is_candidate = reference.matches(candidates.filter, message)
    if candidates.is_exact:
        assert is_candidate == has_result
    else:
        assert is_candidate or not has_result


@given(transformations())
def test_group_plans_make_the_groups_of_the_reference(case: Case) -> None:
    query = parse_flwr(case.query)
    message = parse_message(case.data)
    try:
        plan, constants = group_plan(query, PathTable())
    except NotGroupedError:
        return
    groups = Groups(message)
    made = groups.make(plan, groups.bound(plan, constants, LIMITS), LIMITS)
    assert made == reference.transform(query, message).groups


def test_most_generated_queries_are_grouped() -> None:
    """Else the test above would compare nothing."""
    seen = {True: 0, False: 0}

    @given(transformations())
    def count(case: Case) -> None:
        try:
            group_plan(parse_flwr(case.query), PathTable())
            seen[True] += 1
        except NotGroupedError:
            seen[False] += 1

    count()
    assert seen[True] > 20


def expected(query: Query, format: OutputFormat, message: Message) -> bytes | str | None:
    """What a subscription should get: bytes, the code of an error, or nothing."""
    if isinstance(query, Filter):
        return message.data if reference.matches(query, message) else None
    try:
        return make_output(reference.transform(query, message, LIMITS), message, format, LIMITS)
    except ResultError as error:
        return error.code


def test_cases() -> None:
    text = (DATA / "transformations.txt").read_text(encoding="utf-8")
    for block in text.split("\n\n")[1:]:
        data, *queries = block.strip().splitlines()
        message = parse_message(data.encode())
        engine = Engine()
        wanted = {}
        for query in queries:
            engine.add(query, parse(query))
            wanted[query] = expected(parse(query), OutputFormat.XML, message)
        got = {each.subscription: each.payload for each in engine.process(data.encode())}
        assert got == {query: answer for query, answer in wanted.items() if answer is not None}
        assert got


def test_what_no_subscription_asks_for_is_let_go() -> None:
    engine = Engine()
    for number in range(50):
        engine.add("one", parse(f"for $v in //a{number} return <o>{{$v/b{number}}}</o>"))
    assert len(engine.planner.paths) == 2
    engine.remove("one")
    assert len(engine.planner.paths) == 0


def test_many_label_paths_of_one_name_are_reached_from_above() -> None:
    inner = "".join(f"<n{n}><b>{n}</b><c/></n{n}>" for n in range(100))
    message = parse_message(f"<r>{inner}<b>r</b></r>".encode())
    for text in ("//*", "/r/*", "//n7", "/r"):
        for path in ("$v/b", "$v//b", "$v/*/b", "$v//*"):
            query = parse_flwr(f'for $v in {text} where {path} = "7" return <o>{{{path}}}</o>')
            plan, constants = group_plan(query, PathTable())
            groups = Groups(message)
            made = groups.make(plan, groups.bound(plan, constants, LIMITS), LIMITS)
            assert made == reference.transform(query, message).groups


class ChangingSubscriptions(RuleBasedStateMachine):
    """Subscriptions of both kinds come, change and go while messages are processed."""

    @initialize(rng=st.randoms(use_true_random=False))
    def start(self, rng: random.Random) -> None:
        choice = rng.choice(
            [choice for choice in Choice for _ in range(1 + 3 * (choice == "auto"))]
        )
        self.rng = rng
        self.subscriptions: dict[str, tuple[Query, OutputFormat]] = {}
        self.data = [random_message(rng) for _ in range(2)]
        graph = dtd_of(self.data[0]) if rng.random() < 0.5 else None
        self.engine = Engine(matcher=YFilter(settle_above=3), choice=choice, graph=graph)
        self.texts: list[str] = []

    @rule()
    def subscribe(self) -> None:
        rng = self.rng
        maker = QueryMaker(parse_message(rng.choice(self.data)), rng)
        if self.texts and rng.random() < 0.3:
            text = rng.choice(self.texts)
        else:
            text = PROLOG + (maker.flwr() if rng.random() < 0.7 else maker.filter())
            self.texts.append(text)
        name = f"s{rng.randrange(8)}"
        format = rng.choice(list(OutputFormat))
        query = parse(text)
        try:
            self.engine.add(name, query, format)
        except QueryError:
            return
        self.subscriptions[name] = (query, format)

    @rule()
    def unsubscribe(self) -> None:
        name = f"s{self.rng.randrange(8)}"
        assert self.engine.remove(name) == (name in self.subscriptions)
        self.subscriptions.pop(name, None)

    @rule()
    def other_traffic(self) -> None:
        self.data[self.rng.randrange(2)] = random_message(self.rng)

    @invariant()
    def everyone_gets_their_own(self) -> None:
        if not hasattr(self, "engine"):
            return
        assert len(self.engine) == len(self.subscriptions)
        for data in self.data:
            message = parse_message(data)
            wanted = {
                name: answer
                for name, (query, format) in self.subscriptions.items()
                if (answer := expected(query, format, message)) is not None
            }
            deliveries = self.engine.process(data)
            assert len(deliveries) == len({each.subscription for each in deliveries})
            got = {
                each.subscription: each.payload if each.error is None else each.error.code
                for each in deliveries
            }
            assert got == wanted

    def teardown(self) -> None:
        """Who leaves takes all of their plans along."""
        if not hasattr(self, "engine"):
            return
        for name in self.subscriptions:
            self.engine.remove(name)
        planner = self.engine.planner
        assert self.engine.transformations.total() == 0
        assert len(planner.together) == planner.together.shared.operators == 0
        assert planner.together.fallback.operators == 0


TestChangingSubscriptions = ChangingSubscriptions.TestCase
TestChangingSubscriptions.settings = settings(max_examples=50, stateful_step_count=20)

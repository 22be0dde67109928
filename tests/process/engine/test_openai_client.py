"""openai-python against the engine alone."""

import openai
import pytest

from engine.echo import PREFACE
from tests.process.engine.conftest import Engine, Start


@pytest.fixture
def client(engine: Engine) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0)


def test_a_chat_is_answered_whole(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="echo", messages=[{"role": "user", "content": "Hello there"}]
    )
    assert answer.choices[0].message.content == f"{PREFACE} Hello there"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "echo"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len(f"{PREFACE} Hello there".split())
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 13


def test_a_chat_is_streamed_with_its_usage(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="echo",
            messages=[{"role": "user", "content": "Hello there"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    *parts, last = chunks
    text = "".join(part.choices[0].delta.content or "" for part in parts)
    assert text == f"{PREFACE} Hello there"
    assert parts[0].choices[0].delta.role == "assistant"
    assert [part.choices[0].finish_reason for part in parts] == [None] * (len(parts) - 1) + ["stop"]
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 13


def test_the_last_user_message_is_what_is_echoed(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="echo",
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "an answer"},
            {"role": "user", "content": [{"type": "text", "text": "second"}]},
        ],
    )
    assert answer.choices[0].message.content == f"{PREFACE} second"


def test_a_completion_is_answered_and_streamed_alike(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="echo", prompt="Hello", max_tokens=50)
    parts = client.completions.create(model="echo", prompt="Hello", max_tokens=50, stream=True)
    assert whole.choices[0].text == f"{PREFACE} Hello"
    assert "".join(part.choices[0].text for part in parts) == f"{PREFACE} Hello"


def test_several_prompts_and_choices_are_numbered_in_order(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="echo", prompt=["a", "b"], n=2, max_tokens=50)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert [choice.text[-1] for choice in answer.choices] == ["a", "a", "b", "b"]


def test_max_tokens_and_stop_end_an_answer(client: openai.OpenAI) -> None:
    cut = client.completions.create(model="echo", prompt="Hello", max_tokens=2)
    assert (cut.choices[0].text, cut.choices[0].finish_reason) == ("This is", "length")
    stopped = client.completions.create(model="echo", prompt="Hello", stop=["echo"])
    assert stopped.choices[0].text == "This is the Noctaya "
    assert stopped.choices[0].finish_reason == "stop"


def test_all_served_names_are_listed_and_taken(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["echo", "alias"]
    answer = client.completions.create(model="alias", prompt="Hello")
    assert answer.model == "alias"


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="Echo") as caught:
        client.completions.create(model="Echo", prompt="Hello")
    assert caught.value.param == "model"
    assert caught.value.type == "NotFoundError"


def test_the_model_itself_is_the_only_name_unless_others_are_given(start: Start) -> None:
    engine = start("--model", "org/name")
    client = openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none")
    assert [model.id for model in client.models.list()] == ["org/name"]

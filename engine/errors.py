"""Refusals in the shape of vLLM: ``{"error": {"message", "type", "param", "code"}}``.

vLLM has two dialects for a bad request. What its schema refuses is "Bad Request" (with the space)
and names the field as ``body.<field>``; what it refuses later is "BadRequestError".
"""

import http


class Refusal(Exception):
    """A request that is answered with an error; it never reaches the generator."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.param = param

    def body(self) -> dict[str, dict[str, str | int | None]]:
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.status,
            }
        }


def schema(message: str, field: str) -> Refusal:
    """The body does not have the shape that the endpoint takes."""
    status = http.HTTPStatus.BAD_REQUEST
    return Refusal(status, status.phrase, message, f"body.{field}" if field else "body")


def bad_request(message: str, param: str | None = None) -> Refusal:
    """The shape is right and the value cannot be served."""
    return Refusal(http.HTTPStatus.BAD_REQUEST, "BadRequestError", message, param)


def unknown_model(asked: str, served: tuple[str, ...]) -> Refusal:
    message = f"The model `{asked}` does not exist; this engine serves {', '.join(served)}."
    return Refusal(http.HTTPStatus.NOT_FOUND, "NotFoundError", message, "model")


def shutting_down() -> Refusal:
    """vLLM answers 500 while it drains, and keeps /health at 200."""
    status = http.HTTPStatus.INTERNAL_SERVER_ERROR
    return Refusal(status, "InternalServerError", "The engine is shutting down.")

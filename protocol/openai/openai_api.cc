#include "protocol/openai/openai_api.h"

#include "protocol/api/body.h"
#include "protocol/openai/embeddings.h"
#include "protocol/openai/error_body.h"
#include "protocol/openai/model_list.h"
#include "protocol/openai/request.h"
#include "protocol/openai/snapshot_api.h"
#include "protocol/openai/stream_reply.h"
#include "protocol/openai/whole_reply.h"

namespace reprise::protocol::openai {
namespace {

class OpenAiDialect final : public Dialect {
 public:
  ErrorAnswer error_answer(const ApiError& error) const override {
    return {error.status, envelope(error).dump()};
  }
};

const Dialect& the_dialect() {
  static const OpenAiDialect kDialect;
  return kDialect;
}

class TextCall final : public GenerationCall {
 public:
  TextCall(TextRequest request, SlotNote note)
      : GenerationCall(std::move(request.asked)), options_(request.reply), note_(std::move(note)) {}

  std::unique_ptr<StreamedReply> stream(ReplyContext context) override {
    return noted(std::unique_ptr<StreamedReply>(std::make_unique<StreamReply>(options_, std::move(context))),
                 std::move(note_));
  }
  std::unique_ptr<Reply> whole(ReplyContext context) override {
    return noted(std::unique_ptr<Reply>(std::make_unique<WholeReply>(options_, std::move(context))),
                 std::move(note_));
  }

 private:
  const ReplyOptions options_;
  SlotNote note_;
};

class TextEndpoint final : public Endpoint {
 public:
  TextEndpoint(TextKind kind, std::shared_ptr<NamedSnapshots> names, std::shared_ptr<SlotBook> slots)
      : kind_(kind), names_(std::move(names)), slots_(std::move(slots)) {}

  const Dialect& dialect() const override { return the_dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    const bool chats = kind_ == TextKind::kChat;
    Json body = parse_body(input.body, limits, chats ? BodyHolds::kText : BodyHolds::kTokenIds);
    const Continued continued = with_beginning(std::move(body), kind_, *names_, input.tenant);
    TextRequest request =
        chats ? read_chat_request(continued.body, limits) : read_completion_request(continued.body, limits);
    continued.pin(request.asked.generate);
    return std::make_unique<TextCall>(std::move(request), slot_note(slots_, continued.body, input.tenant));
  }

 private:
  const TextKind kind_;
  const std::shared_ptr<NamedSnapshots> names_;
  const std::shared_ptr<SlotBook> slots_;
};

class EmbeddingsEndpoint final : public Endpoint {
 public:
  const Dialect& dialect() const override { return the_dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    return embedding_call(parse_body(input.body, limits, BodyHolds::kTokenIds), limits);
  }
};

/// GET: all models, or the one that the path names.
class ModelsEndpoint final : public Endpoint {
 public:
  const Dialect& dialect() const override { return the_dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits&) const override {
    if (input.path_end.empty()) return std::make_unique<ModelListQuestion>();
    return std::make_unique<ModelQuestion>(std::string(input.path_end));
  }
};

}  // namespace

std::shared_ptr<const Dialect> dialect() {
  return std::shared_ptr<const Dialect>(std::shared_ptr<void>(), &the_dialect());  // is there for ever
}

std::vector<ApiRoute> routes(const std::shared_ptr<NamedSnapshots>& names,
                             const std::shared_ptr<SlotBook>& slots) {
  const auto models = std::make_shared<ModelsEndpoint>();
  std::vector<ApiRoute> all = {
      {.path = "/v1/chat/completions",
       .endpoint = std::make_shared<TextEndpoint>(TextKind::kChat, names, slots),
       .generates = true},
      {.path = "/v1/completions",
       .endpoint = std::make_shared<TextEndpoint>(TextKind::kCompletion, names, slots),
       .generates = true},
      {.path = "/v1/embeddings", .endpoint = std::make_shared<EmbeddingsEndpoint>(), .generates = true},
      {.method = HttpMethod::kGet, .path = "/v1/models", .endpoint = models},
      {.method = HttpMethod::kGet, .path = "/v1/models/{id}", .endpoint = models}};
  for (ApiRoute& route : snapshot_routes(names)) all.push_back(std::move(route));
  return all;
}

}  // namespace reprise::protocol::openai

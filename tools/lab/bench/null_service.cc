#include "tools/lab/bench/null_service.h"

#include <algorithm>

namespace reprise::bench {

using namespace protocol;

namespace {

template <class T>
runtime::Ask<Answer<T>> answered(T value) {
  return runtime::Ask<Answer<T>>(runtime::Result<Answer<T>>(Answer<T>(std::move(value))));
}

}  // namespace

runtime::StreamReader<Event> NullService::generate(GenerateRequest request) {
  const std::uint32_t tokens = std::min(tokens_, request.max_tokens.value_or(tokens_));
  // Wide enough for all events, so that no second thread is needed to write them.
  auto [writer, reader] = runtime::make_stream<Event>(tokens + 4);
  const auto write = [&writer = writer](Event event) { writer.try_write(event); };
  write(Admitted{"null", 4});
  write(Started{{}, {}});
  for (std::uint32_t i = 0; i < tokens; ++i) write(Delta{0, "word ", {{.id = 7, .bytes = "word "}}});
  write(Finished{0, FinishReason::kLength});
  write(Done{{.prompt_tokens = 4, .completion_tokens = tokens}});
  writer.close();
  return std::move(reader);
}

runtime::Ask<Answer<Tokenized>> NullService::tokenize(TokenizeRequest) {
  return answered(Tokenized{});
}
runtime::Ask<Answer<Detokenized>> NullService::detokenize(DetokenizeRequest) {
  return answered(Detokenized{});
}
runtime::Ask<Answer<Rendered>> NullService::render(RenderRequest) {
  return answered(Rendered{});
}

std::vector<ModelCard> NullService::models() const {
  return {{.id = "null", .architecture = "none", .context = 1u << 20, .state = ModelCard::State::kReady}};
}

}  // namespace reprise::bench

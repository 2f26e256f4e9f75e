// No engine is connected yet: the server runs, and says that it has no model.
#include "tools/reprise/make_service.h"

namespace reprise::tools {
namespace {

using namespace protocol;

class NoEngine : public Service {
 public:
  runtime::StreamReader<Event> generate(GenerateRequest) override {
    auto [writer, reader] = runtime::make_stream<Event>(kEventWindow);
    Event event = Failed{error()};
    writer.try_write(event);
    writer.close();
    return std::move(reader);
  }
  runtime::Ask<Answer<Tokenized>> tokenize(TokenizeRequest) override { return refused<Tokenized>(); }
  runtime::Ask<Answer<Detokenized>> detokenize(DetokenizeRequest) override { return refused<Detokenized>(); }
  runtime::Ask<Answer<Rendered>> render(RenderRequest) override { return refused<Rendered>(); }
  std::vector<ModelCard> models() const override { return {}; }
  Health health() const override { return {.ready = false, .detail = error().message}; }
  std::vector<Figure> figures() const override { return {}; }

 private:
  static ServiceError error() {
    return {.code = ServiceErrorCode::kUnavailable, .message = "this build serves no model"};
  }
  template <class T>
  static runtime::Ask<Answer<T>> refused() {
    return runtime::Ask<Answer<T>>(runtime::Result<Answer<T>>(Answer<T>(error())));
  }
};

}  // namespace

std::unique_ptr<Service> make_service(runtime::System&, const ServeConfig&) {
  return std::make_unique<NoEngine>();
}

}  // namespace reprise::tools

#pragma once
// A Service that answers every request at once with the same words: what is measured in front of it is HTTP
// alone.
//
// Threading: any thread.

#include <cstdint>

#include "protocol/service.h"

namespace reprise::bench {

class NullService : public protocol::Service {
 public:
  explicit NullService(std::uint32_t tokens) : tokens_(tokens) {}

  runtime::StreamReader<protocol::Event> generate(protocol::GenerateRequest request) override;
  runtime::Ask<protocol::Answer<protocol::Tokenized>> tokenize(protocol::TokenizeRequest request) override;
  runtime::Ask<protocol::Answer<protocol::Detokenized>> detokenize(
      protocol::DetokenizeRequest request) override;
  runtime::Ask<protocol::Answer<protocol::Rendered>> render(protocol::RenderRequest request) override;
  std::vector<protocol::ModelCard> models() const override;
  protocol::Health health() const override { return {.ready = true}; }
  std::vector<protocol::Figure> figures() const override { return {}; }

 private:
  const std::uint32_t tokens_;  // of a reply, unless the request wants fewer
};

}  // namespace reprise::bench

#include "tools/reprise/trace_file.h"

#include <algorithm>
#include <limits>

#include "models/files/json_location.h"
#include "models/files/load_error.h"

namespace reprise::tools {
namespace {

constexpr std::size_t kMaxLineLength = 16u << 20;
constexpr std::int64_t kMaxId = std::numeric_limits<TokenId>::max();

std::int64_t integer_within(const models::JsonLocation& object, std::string_view key, std::int64_t max) {
  const models::JsonLocation value = object.at(key);
  const std::int64_t integer = value.integer();
  if (integer < 0 || integer > max) value.fail("out of range");
  return integer;
}

}  // namespace

void TraceRequest::expand(std::uint32_t block_tokens, TokenList& prompt) const {
  prompt.clear();
  prompt.reserve(input_tokens);
  for (const TokenId block : blocks) {
    const std::size_t left = input_tokens - prompt.size();
    prompt.insert(prompt.end(), std::min<std::size_t>(block_tokens, left), block);
  }
}

TraceFile::TraceFile(const std::filesystem::path& path, std::uint32_t block_tokens)
    : name_(path.string()), block_tokens_(block_tokens), in_(path, std::ios::binary) {
  if (!in_) throw models::LoadError(name_, "", "cannot be opened");
}

std::optional<TraceRequest> TraceFile::next() {
  std::string line;
  if (!std::getline(in_, line)) return std::nullopt;
  const std::string place = name_ + ": line " + std::to_string(++line_);
  const models::JsonLocation object = models::JsonLocation::parse(line, place, {.bytes = kMaxLineLength});
  TraceRequest request;
  request.time = std::chrono::milliseconds(integer_within(object, "timestamp", std::int64_t{1} << 40));
  if (request.time < last_) object.at("timestamp").fail("earlier than the line before");
  last_ = request.time;
  request.input_tokens =
      static_cast<std::uint32_t>(integer_within(object, "input_length", std::numeric_limits<int>::max()));
  for (const std::int64_t id : object.at("hash_ids").integers()) {
    if (id < 0 || id > kMaxId) object.at("hash_ids").fail("an id is out of range");
    request.blocks.push_back(static_cast<TokenId>(id));
  }
  const std::uint64_t needed = (std::uint64_t{request.input_tokens} + block_tokens_ - 1) / block_tokens_;
  if (request.blocks.size() != needed) {
    object.at("hash_ids")
        .fail("expected " + std::to_string(needed) + " ids for " + std::to_string(request.input_tokens) +
              " tokens in blocks of " + std::to_string(block_tokens_) + ", found " +
              std::to_string(request.blocks.size()));
  }
  return request;
}

}  // namespace reprise::tools

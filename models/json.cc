#include "models/json.h"

#include <simdjson.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <variant>

#include "models/load_error.h"
#include "models/mapped_file.h"

namespace reprise::models {

struct Json::Node {
  using Array = std::vector<Node>;
  struct Object {
    std::vector<std::string> keys;     // in the file's order
    std::vector<Node> values;          // beside them
    std::vector<std::uint32_t> order;  // places in `keys`, sorted by key
  };

  // In the order of Kind.
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, std::unique_ptr<Object>> value;
};

struct Json::Document {
  std::string file;
  Node root;
};

namespace {

constexpr std::string_view kKindNames[] = {"null",     "true or false", "an integer", "a number",
                                           "a string", "an array",      "an object"};

// What Python writes and the standard forbids, made readable for the parser. A literal such as Infinity
// becomes a string; since it is known to be the n-th string of the text, no string that really is there can
// be taken for one.
struct Rewritten {
  struct Literal {
    std::size_t string_number;
    double value;
  };
  std::string text;
  std::vector<Literal> literals;  // in order
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Behind the closing quote of the string that opens at `at`, or the end of the text.
std::size_t behind_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

Rewritten rewrite(std::string_view text) {
  Rewritten out;
  out.text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  std::size_t strings = 0;
  const auto literal = [&](std::string_view word, double value, std::size_t& at) {
    if (!text.substr(at).starts_with(word)) return false;
    out.literals.push_back({strings++, value});
    out.text += "\"\"";
    at += word.size();
    return true;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      const std::size_t end = behind_string(text, at);
      out.text += text.substr(at, end - at);
      at = end;
      ++strings;
    } else if (c == '-' || is_digit(c)) {
      if (literal("-Infinity", -kInfinity, at)) continue;
      std::size_t end = at + 1;
      while (end < text.size() && is_digit(text[end])) ++end;
      const bool whole = end == text.size() || (text[end] != '.' && text[end] != 'e' && text[end] != 'E');
      out.text += text.substr(at, end - at);
      if (whole && end - at > 19) out.text += "e0";  // may not fit 64 bits: read as a double
      at = end;
      if (!whole) {  // the exponent's digits are not an integer of their own
        while (at < text.size() &&
               (is_digit(text[at]) || std::string_view("+-.eE").find(text[at]) != text.npos)) {
          out.text += text[at++];
        }
      }
    } else if (!literal("Infinity", kInfinity, at) &&
               !literal("NaN", std::numeric_limits<double>::quiet_NaN(), at)) {
      out.text += c;
      ++at;
    }
  }
  return out;
}

}  // namespace

// Copies simdjson's document into ours, checking depth and keys on the way.
struct Json::Builder {
  const std::string& file;
  const JsonLimits& limits;
  const std::vector<Rewritten::Literal>& literals;
  std::size_t strings = 0;       // seen so far
  std::size_t next_literal = 0;  // the next of `literals` to meet

  Node node(simdjson::dom::element element, std::size_t depth) {
    using simdjson::dom::element_type;
    switch (element.type()) {
      case element_type::NULL_VALUE:
        return {};
      case element_type::BOOL:
        return {bool(element.get_bool().value_unsafe())};
      case element_type::INT64:
        return {std::int64_t{element.get_int64().value_unsafe()}};
      case element_type::UINT64:
        return {static_cast<double>(element.get_uint64().value_unsafe())};
      case element_type::DOUBLE:
        return {element.get_double().value_unsafe()};
      case element_type::STRING: {
        if (next_literal < literals.size() && literals[next_literal].string_number == strings) {
          ++strings;
          return {literals[next_literal++].value};
        }
        ++strings;
        return {std::string(element.get_string().value_unsafe())};
      }
      case element_type::ARRAY:
        return array(element.get_array().value_unsafe(), depth);
      case element_type::OBJECT:
        return object(element.get_object().value_unsafe(), depth);
    }
    throw LoadError(file, "", "has a JSON value of an unknown type");
  }

  Node array(simdjson::dom::array items, std::size_t depth) {
    check_depth(depth);
    Node::Array out;
    out.reserve(items.size());
    for (simdjson::dom::element element : items) out.push_back(node(element, depth + 1));
    return {std::move(out)};
  }

  Node object(simdjson::dom::object members, std::size_t depth) {
    check_depth(depth);
    auto out = std::make_unique<Node::Object>();
    out->keys.reserve(members.size());
    out->values.reserve(members.size());
    for (const simdjson::dom::key_value_pair& member : members) {
      if (next_literal < literals.size() && literals[next_literal].string_number == strings) {
        throw LoadError(file, "", "has a key that is not a string");
      }
      ++strings;
      out->keys.emplace_back(member.key);
      out->values.push_back(node(member.value, depth + 1));
    }
    const std::vector<std::string>& keys = out->keys;
    out->order.resize(keys.size());
    std::iota(out->order.begin(), out->order.end(), 0u);
    std::sort(out->order.begin(), out->order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return keys[a] < keys[b]; });
    const auto twice =
        std::adjacent_find(out->order.begin(), out->order.end(),
                           [&](std::uint32_t a, std::uint32_t b) { return keys[a] == keys[b]; });
    if (twice != out->order.end())
      throw LoadError(file, keys[*twice], "this key is there twice in one object");
    return {std::move(out)};
  }

  void check_depth(std::size_t depth) const {
    if (depth >= limits.depth) {
      throw LoadError(file, "", "is nested deeper than " + std::to_string(limits.depth));
    }
  }
};

Json Json::parse(std::string_view text, std::string_view file, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    throw LoadError(file, "",
                    "has " + std::to_string(text.size()) + " bytes of JSON; at most " +
                        std::to_string(limits.bytes) + " are read");
  }
  const Rewritten rewritten = rewrite(text);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const simdjson::error_code error =
      parser.parse(simdjson::padded_string(rewritten.text)).get(root);  // UTF-8 is checked as well
  if (error != simdjson::SUCCESS) {
    throw LoadError(file, "", std::string("is not JSON: ") + simdjson::error_message(error));
  }
  auto document = std::make_shared<Document>();
  document->file = file;
  document->root = Builder{document->file, limits, rewritten.literals}.node(root, 0);
  const Node* node = &document->root;
  return Json(std::move(document), node, "");
}

Json Json::read(const std::filesystem::path& path, const JsonLimits& limits) {
  const MappedFile file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file.bytes();
  return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.path(), limits);
}

const std::string& Json::file() const {
  return document_->file;
}

void Json::fail(std::string_view reason) const {
  throw LoadError(file(), path_, reason);
}

Json::Kind Json::kind() const {
  return static_cast<Kind>(node_->value.index());
}

template <class T>
const T& Json::get(std::string_view wanted) const {
  if (const T* value = std::get_if<T>(&node_->value)) return *value;
  fail("expected " + std::string(wanted) + ", found " + std::string(kKindNames[node_->value.index()]));
}

std::int64_t Json::integer() const {
  return get<std::int64_t>("an integer");
}

double Json::number() const {
  if (const auto* value = std::get_if<std::int64_t>(&node_->value)) return static_cast<double>(*value);
  return get<double>("a number");
}

bool Json::boolean() const {
  return get<bool>("true or false");
}

const std::string& Json::text() const {
  return get<std::string>("a string");
}

std::size_t Json::size() const {
  if (const auto* object = std::get_if<std::unique_ptr<Node::Object>>(&node_->value))
    return (*object)->keys.size();
  return get<Node::Array>("an array or object").size();
}

Json Json::item(const Node& node, std::size_t i) const {
  return Json(document_, &node, path_ + "[" + std::to_string(i) + "]");
}

Json Json::member(const Node& node, std::string_view key) const {
  return Json(document_, &node, path_.empty() ? std::string(key) : path_ + "." + std::string(key));
}

Json Json::at(std::size_t i) const {
  const Node::Array& array = get<Node::Array>("an array");
  if (i >= array.size()) fail("has no item " + std::to_string(i));
  return item(array[i], i);
}

std::vector<std::int64_t> Json::integers() const {
  const Node::Array& array = get<Node::Array>("an array of integers");
  std::vector<std::int64_t> out;
  out.reserve(array.size());
  for (const Node& node : array) {
    const auto* value = std::get_if<std::int64_t>(&node.value);
    out.push_back(value != nullptr ? *value : item(node, out.size()).integer());
  }
  return out;
}

std::vector<std::string> Json::texts() const {
  const Node::Array& array = get<Node::Array>("an array of strings");
  std::vector<std::string> out;
  out.reserve(array.size());
  for (const Node& node : array) {
    const auto* value = std::get_if<std::string>(&node.value);
    out.push_back(value != nullptr ? *value : item(node, out.size()).text());
  }
  return out;
}

std::optional<Json> Json::find(std::string_view key) const {
  const Node::Object& object = *get<std::unique_ptr<Node::Object>>("an object");
  const auto place =
      std::lower_bound(object.order.begin(), object.order.end(), key,
                       [&](std::uint32_t i, std::string_view k) { return object.keys[i] < k; });
  if (place == object.order.end() || object.keys[*place] != key) return std::nullopt;
  const Node& node = object.values[*place];
  if (std::holds_alternative<std::monostate>(node.value)) return std::nullopt;
  return member(node, key);
}

Json Json::at(std::string_view key) const {
  std::optional<Json> found = find(key);
  if (!found) member(*node_, key).fail("is missing");
  return *std::move(found);
}

const std::string& Json::key_at(std::size_t i) const {
  const Node::Object& object = *get<std::unique_ptr<Node::Object>>("an object");
  if (i >= object.keys.size()) fail("has no member " + std::to_string(i));
  return object.keys[i];
}

Json Json::value_at(std::size_t i) const {
  const std::string& key = key_at(i);
  return member((*std::get<std::unique_ptr<Node::Object>>(node_->value)).values[i], key);
}

std::int64_t Json::integer_or(std::string_view key, std::int64_t fallback) const {
  const std::optional<Json> found = find(key);
  return found ? found->integer() : fallback;
}

double Json::number_or(std::string_view key, double fallback) const {
  const std::optional<Json> found = find(key);
  return found ? found->number() : fallback;
}

bool Json::boolean_or(std::string_view key, bool fallback) const {
  const std::optional<Json> found = find(key);
  return found ? found->boolean() : fallback;
}

std::string Json::text_or(std::string_view key, std::string_view fallback) const {
  const std::optional<Json> found = find(key);
  return found ? found->text() : std::string(fallback);
}

}  // namespace reprise::models

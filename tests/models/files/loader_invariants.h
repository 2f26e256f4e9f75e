#pragma once
// Invariants of any loaded file: every view lies within it. Each function returns a description of what is
// wrong, or nothing.

#include <string>

#include "models/files/load_error.h"
#include "models/model_files.h"

namespace reprise::models::test {

inline std::string fault_of(const TensorSource& source) {
  for (const StoredTensor& tensor : source.tensors()) {
    const auto all = source.files().at(tensor.file).bytes();
    if (!tensor.bytes.empty() && (tensor.bytes.data() < all.data() ||
                                  tensor.bytes.data() + tensor.bytes.size() > all.data() + all.size())) {
      return "a tensor outside of its file: " + tensor.name;
    }
    if (byte_size(tensor.type, tensor.shape) != tensor.bytes.size()) {
      return "a tensor of another size: " + tensor.name;
    }
    if (source.find(tensor.name) != &tensor) return "a tensor that is not found: " + tensor.name;
  }
  return {};
}

/// Calls every getter with every key: each returns or throws LoadError.
inline void ask_for_everything(const GgufMetadata& metadata) {
  const auto attempt = [](auto get) {
    try {
      get();
    } catch (const LoadError&) {
    }
  };
  for (const GgufMetadata::Entry& entry : metadata.entries()) {
    attempt([&] { metadata.text(entry.key); });
    attempt([&] { metadata.integer(entry.key); });
    attempt([&] { metadata.number(entry.key); });
    attempt([&] { metadata.boolean(entry.key); });
    attempt([&] { metadata.strings(entry.key); });
    attempt([&] { metadata.integers(entry.key); });
    attempt([&] { metadata.numbers(entry.key); });
    attempt([&] { metadata.booleans(entry.key); });
  }
}

inline std::string fault_of(const Gguf& file) {
  const auto all = file.tensors().files().front().bytes();
  const auto inside = [&](std::string_view text) {
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    return text.empty() || (first >= all.data() && first + text.size() <= all.data() + all.size());
  };
  for (const GgufMetadata::Entry& entry : file.metadata().entries()) {
    if (!inside(entry.key)) return "a key outside of the file";
    for (std::string_view text : entry.value.strings) {
      if (!inside(text)) return "a string outside of the file";
    }
  }
  ask_for_everything(file.metadata());
  return fault_of(file.tensors());
}

inline std::string fault_of(const ModelFiles& files) {
  for (const std::string& name : files.names()) {
    try {
      const Tensor tensor = files.tensor(name);
      if (byte_size(tensor.type, tensor.shape) != tensor.bytes.size()) {
        return "a tensor of another size: " + name;
      }
    } catch (const LoadError&) {
    }
  }
  return {};
}

}  // namespace reprise::models::test

// The quality of a model of virtual peers, and its text.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "train/evaluation.hpp"

namespace gv {

/// An evaluation of a model. If the virtual peers do not train, at most the loss is set.
struct Judgement {
  double loss = 0;
  Merit merit{.name = "accuracy"};

  double accuracy() const { return merit.name == "accuracy" ? merit.value : 0; }
  std::optional<double> r2() const {
    return merit.name == "r2" ? std::optional(merit.value) : std::nullopt;
  }
};

/// The merit as text, for example "91.20 %" or, for R2, "R2 0.9120".
inline std::string merit_text(double merit, bool is_r2) {
  return is_r2 ? fmt::format("R2 {:.4f}", merit) : fmt::format("{:.2f} %", 100 * merit);
}

}  // namespace gv

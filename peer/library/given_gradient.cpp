// Checks gradients against the tensors of the model.
#include "peer/library/given_gradient.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

namespace gv {

GivenGradient::GivenGradient(const UserTensors& model) : model_(&model) {
  std::size_t begin = 0;
  for (const UserTensor& tensor : model.all()) {
    places_.emplace(tensor.name, begins_.size());
    begins_.push_back(begin);
    begin += tensor.floats();
  }
  given_.resize(begins_.size());
}

std::vector<GradientPart> GivenGradient::add(const UserTensors& tensors) {
  std::vector<std::size_t> places;
  for (const UserTensor& tensor : tensors.all()) {
    const auto refuse = [&](const std::string& why) {
      throw std::invalid_argument("tensor '" + tensor.name + "': " + why);
    };
    const auto found = places_.find(tensor.name);
    if (found == places_.end()) {
      refuse(
          "the model has none of that name; give a gradient the name of its tensor in gv_join()");
    }
    if (tensor.type == TensorType::i64) refuse("a gradient has floats; give it as GV_F32");
    const std::size_t place = found->second;
    const std::size_t wanted = model_->all()[place].elements;
    if (tensor.elements != wanted) {
      refuse(fmt::format("its gradient has {} elements, and it has {}", tensor.elements, wanted));
    }
    if (given_[place]) {
      refuse(
          "its gradient of this step was given before; give each once, when nothing changes it "
          "any more");
    }
    places.push_back(place);
  }
  std::vector<GradientPart> parts;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const UserTensor& tensor = tensors.all()[i];
    const std::size_t begin = begins_[places[i]];
    given_[places[i]] = tensor;
    UserTensors one;
    one.add(tensor);
    parts.push_back({.range = {begin, begin + tensor.elements},
                     .read = [one](std::span<float> to) { one.read(to); }});
  }
  count_ += parts.size();
  return parts;
}

UserTensors GivenGradient::take() {
  if (count_ < given_.size()) {
    const auto missing = std::ranges::find(given_, false, &std::optional<UserTensor>::has_value);
    const auto& first = model_->all()[static_cast<std::size_t>(missing - given_.begin())];
    const std::size_t others = given_.size() - count_ - 1;
    throw std::invalid_argument(fmt::format(
        "tensor '{}'{}: the gradient of this step was not given; give it to gv_reduce_begin(), "
        "with zeros where there is none",
        first.name, others == 0 ? "" : fmt::format(" and {} more", others)));
  }
  UserTensors all;
  for (std::optional<UserTensor>& one : given_) all.add(*std::exchange(one, std::nullopt));
  count_ = 0;
  return all;
}

}  // namespace gv

//! Models, data sets and evaluation together.

#[cfg(test)]
mod arrays;
#[cfg(test)]
mod evaluation;
#[cfg(test)]
mod frozen;
#[cfg(test)]
mod gradients;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod heads;
#[cfg(test)]
mod imagenet;
#[cfg(test)]
mod models;
#[cfg(test)]
mod pictures;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod real_data;
#[cfg(test)]
mod residual;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod slices;
#[cfg(test)]
mod support;
#[cfg(test)]
mod text_cnn;
#[cfg(test)]
mod texts;
#[cfg(test)]
mod training;
#[cfg(test)]
mod vision;

(** Discrete probability without measure theory.

    A law gives every outcome a mass. The mass of infinitely many outcomes is the least upper bound of the
    masses of finite lists without repetition. Outcomes may have any type; only countably many can have a
    positive mass. Privacy is a ratio: r stands for e^epsilon. *)

From Coq Require Import Reals Lra Lia List FinFun.
Import ListNotations.
Open Scope R_scope.

(** ** Finite sums *)

Definition sum {A} (f : A -> R) (l : list A) : R := fold_right (fun a s => f a + s) 0 l.

Section Sums.
Context {A : Type}.
Implicit Types (f g : A -> R) (l m : list A).

Lemma sum_cons f a l : sum f (a :: l) = f a + sum f l.
Proof. reflexivity. Qed.

Lemma sum_app f l m : sum f (l ++ m) = sum f l + sum f m.
Proof. induction l; simpl in *; lra. Qed.

Lemma sum_ext f g l : (forall a, In a l -> f a = g a) -> sum f l = sum g l.
Proof.
  induction l; simpl; intros E; [reflexivity|].
  rewrite (E a (or_introl eq_refl)), IHl; auto.
Qed.

Lemma sum_le f g l : (forall a, In a l -> f a <= g a) -> sum f l <= sum g l.
Proof.
  induction l; simpl; intros E; [lra|].
  pose proof (E a (or_introl eq_refl)). specialize (IHl (fun b H => E b (or_intror H))). lra.
Qed.

Lemma sum_nonneg f l : (forall a, 0 <= f a) -> 0 <= sum f l.
Proof. intros P. induction l; simpl; [lra|]. specialize (P a). lra. Qed.

Lemma sum_scale c f l : sum (fun a => c * f a) l = c * sum f l.
Proof. induction l; simpl in *; lra. Qed.

Lemma sum_scale_r c f l : sum (fun a => f a * c) l = sum f l * c.
Proof. induction l; simpl in *; lra. Qed.

Lemma sum_plus f g l : sum (fun a => f a + g a) l = sum f l + sum g l.
Proof. induction l; simpl in *; lra. Qed.

Lemma sum_const c l : sum (fun _ => c) l = INR (length l) * c.
Proof.
  induction l; [simpl; lra|]. cbn [length]. rewrite sum_cons, IHl, S_INR. lra.
Qed.

Lemma sum_zero f l : (forall a, In a l -> f a = 0) -> sum f l = 0.
Proof. intros E. rewrite (sum_ext f (fun _ => 0)), sum_const; [lra|auto]. Qed.

Lemma sum_remove f l1 a l2 : sum f (l1 ++ a :: l2) = f a + sum f (l1 ++ l2).
Proof. rewrite !sum_app. simpl. lra. Qed.

(** A larger set has a larger mass. *)
Lemma sum_incl f l : forall m, (forall a, 0 <= f a) -> NoDup l -> incl l m -> sum f l <= sum f m.
Proof.
  induction l as [|a l IH]; intros m P N I; simpl.
  - apply sum_nonneg; assumption.
  - inversion N; subst.
    destruct (in_split a m (I a (or_introl eq_refl))) as (m1 & m2 & ->).
    rewrite sum_remove. apply Rplus_le_compat_l, IH; auto.
    intros b Hb. specialize (I b (or_intror Hb)).
    rewrite in_app_iff in *. simpl in I. destruct I as [|[->|]]; auto. contradiction.
Qed.

Lemma sum_incl_eq f l m : NoDup l -> NoDup m -> incl l m -> incl m l -> sum f l = sum f m.
Proof.
  revert m. induction l as [|a l IH]; intros m N M I J; simpl.
  - destruct m as [|b m]; [reflexivity|]. destruct (J b (or_introl eq_refl)).
  - inversion N; subst.
    destruct (in_split a m (I a (or_introl eq_refl))) as (m1 & m2 & ->).
    rewrite sum_remove. f_equal. apply NoDup_remove in M as [M Ha]. apply IH; auto.
    + intros b Hb. specialize (I b (or_intror Hb)).
      rewrite in_app_iff in *. simpl in I. destruct I as [|[->|]]; auto. contradiction.
    + intros b Hb. assert (Hb' := Hb). rewrite in_app_iff in Hb.
      destruct (J b) as [<-|]; auto.
      * rewrite in_app_iff. simpl. tauto.
      * contradiction.
Qed.
End Sums.

Lemma sum_map {A B} (h : A -> B) f l : sum f (map h l) = sum (fun a => f (h a)) l.
Proof. induction l; simpl in *; lra. Qed.

Lemma sum_swap {A B} (f : A -> B -> R) l m :
  sum (fun a => sum (f a) m) l = sum (fun b => sum (fun a => f a b) l) m.
Proof.
  induction l; simpl.
  - symmetry. apply sum_zero. reflexivity.
  - rewrite IHl, <- sum_plus. reflexivity.
Qed.

Lemma sum_prod {A B} (f : A -> B -> R) l m :
  sum (fun p => f (fst p) (snd p)) (list_prod l m) = sum (fun a => sum (f a) m) l.
Proof.
  induction l; simpl; [reflexivity|]. rewrite sum_app, sum_map, IHl. reflexivity.
Qed.

Lemma NoDup_prod {A B} (l : list A) (m : list B) : NoDup l -> NoDup m -> NoDup (list_prod l m).
Proof.
  intros N M. induction N as [|a l Ha N IH]; simpl; [constructor|].
  assert (D : forall n : list (A * B), NoDup n -> (forall b, ~ In (a, b) n) -> NoDup (map (pair a) m ++ n)).
  { intros n Hn D. clear - M Hn D. induction M as [|x m Hx M IHm]; simpl; [exact Hn|]. constructor; [|exact IHm].
    rewrite in_app_iff, in_map_iff. intros [(y & E & Hy)|Hy]; [congruence|exact (D _ Hy)]. }
  apply D; auto. intros b Hb. apply in_prod_iff in Hb. tauto.
Qed.

(** ** Infinite sums of masses *)

Definition total {A} (f : A -> R) (s : R) : Prop :=
  is_lub (fun v => exists l, NoDup l /\ v = sum f l) s.

Section Totals.
Context {A : Type}.
Implicit Types (f g : A -> R).

Lemma total_ub f s l : total f s -> NoDup l -> sum f l <= s.
Proof. intros [U _] N. apply U. eauto. Qed.

Lemma total_le f s b : total f s -> (forall l, NoDup l -> sum f l <= b) -> s <= b.
Proof. intros [_ L] H. apply L. intros v (l & N & ->). auto. Qed.

Lemma total_nonneg f s : total f s -> 0 <= s.
Proof. intros T. apply (total_ub f s [] T). constructor. Qed.

Lemma total_unique f s t : total f s -> total f t -> s = t.
Proof.
  intros S T. apply Rle_antisym.
  - apply (total_le f s); auto. intros. eapply total_ub; eauto.
  - apply (total_le f t); auto. intros. eapply total_ub; eauto.
Qed.

Lemma total_mono f g s t : (forall a, f a <= g a) -> total f s -> total g t -> s <= t.
Proof.
  intros E S T. apply (total_le f); auto. intros l N.
  apply Rle_trans with (sum g l); [apply sum_le; auto | eapply total_ub; eauto].
Qed.

Lemma total_ext f g s : (forall a, f a = g a) -> total f s -> total g s.
Proof.
  intros E [U L]. split.
  - intros v (l & N & ->). apply U. exists l. split; auto. apply sum_ext. auto.
  - intros b H. apply L. intros v (l & N & ->). apply H. exists l. split; auto.
    apply sum_ext. auto.
Qed.

Lemma total_scale c f s : 0 <= c -> total f s -> total (fun a => c * f a) (c * s).
Proof.
  intros C T. split.
  - intros v (l & N & ->). rewrite sum_scale. apply Rmult_le_compat_l; auto. eapply total_ub; eauto.
  - intros b H. destruct (Req_dec c 0) as [->|Hc].
    + rewrite Rmult_0_l. apply H. exists []. split; [constructor|reflexivity].
    + assert (0 < c) by lra. apply (Rmult_le_reg_l (/ c)); [apply Rinv_0_lt_compat; auto|].
      rewrite <- Rmult_assoc, Rinv_l, Rmult_1_l by auto.
      apply (total_le f); auto. intros l N.
      apply (Rmult_le_reg_l c); auto. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by auto.
      apply H. exists l. split; auto. rewrite sum_scale. reflexivity.
Qed.

(** A bounded sum of masses has a value. *)
Lemma total_exists f b : (forall l, NoDup l -> sum f l <= b) -> {s | total f s}.
Proof.
  intros H. apply completeness.
  - exists b. intros v (l & N & ->). auto.
  - exists 0, []. split; [constructor|reflexivity].
Qed.

(** The limit of growing lists that reach every finite set. *)
Lemma total_limit f s (L : nat -> list A) :
  (forall a, 0 <= f a) -> (forall n, NoDup (L n)) -> (forall l, exists n, incl l (L n)) ->
  (forall n, sum f (L n) <= s) -> (forall e, 0 < e -> exists n, s - e <= sum f (L n)) -> total f s.
Proof.
  intros P N I U E. split.
  - intros v (l & Nl & ->). destruct (I l) as [n Hn].
    apply Rle_trans with (sum f (L n)); auto. apply sum_incl; auto.
  - intros b H. apply le_epsilon. intros e He. destruct (E e He) as [n Hn].
    specialize (H (sum f (L n)) (ex_intro _ (L n) (conj (N n) eq_refl))). lra.
Qed.

(** Approximation from below by one list. *)
Lemma total_approx f s e : total f s -> 0 < e -> ~ (forall l, NoDup l -> sum f l <= s - e).
Proof. intros T E H. pose proof (total_le f s (s - e) T H). lra. Qed.

(** Finite support. *)
Lemma total_finite f l :
  (forall a, 0 <= f a) -> NoDup l -> (forall a, ~ In a l -> f a = 0) ->
  (forall a b : A, {a = b} + {a <> b}) -> total f (sum f l).
Proof.
  intros P N Z D. split.
  - intros v (m & M & ->).
    assert (sum f m = sum f (filter (fun a => if in_dec D a l then true else false) m)) as ->.
    { clear M. induction m as [|a m IH]; simpl; auto. destruct (in_dec D a l); simpl; rewrite IH; auto.
      rewrite (Z a n). lra. }
    apply sum_incl; auto. { apply NoDup_filter; auto. }
    intros a Ha. apply filter_In in Ha as [_ Ha]. destruct (in_dec D a l); easy.
  - intros b H. apply H. eauto.
Qed.

Lemma total_finite_eq f l s :
  sum f l = s -> (forall a, 0 <= f a) -> NoDup l -> (forall a, ~ In a l -> f a = 0) ->
  (forall a b : A, {a = b} + {a <> b}) -> total f s.
Proof. intros <-. apply total_finite. Qed.
End Totals.

Lemma total_plus {A} (f g : A -> R) s t :
  (forall a, 0 <= f a) -> (forall a, 0 <= g a) -> (forall a b : A, {a = b} + {a <> b}) ->
  total f s -> total g t -> total (fun a => f a + g a) (s + t).
Proof.
  intros P Q D S T. split.
  - intros v (l & N & ->). rewrite sum_plus.
    pose proof (total_ub _ _ _ S N). pose proof (total_ub _ _ _ T N). lra.
  - intros b H.
    assert (U : forall l m, NoDup l -> NoDup m -> sum f l + sum g m <= b).
    { intros l m Nl Nm. set (u := nodup D (l ++ m)).
      assert (NoDup u) by apply NoDup_nodup.
      assert (sum f l <= sum f u).
      { apply sum_incl; auto. intros a Ha. apply nodup_In, in_app_iff. auto. }
      assert (sum g m <= sum g u).
      { apply sum_incl; auto. intros a Ha. apply nodup_In, in_app_iff. auto. }
      assert (sum (fun a => f a + g a) u <= b) by (apply H; eauto).
      rewrite sum_plus in *. lra. }
    assert (s <= b - t).
    { apply (total_le f); auto. intros l Nl.
      assert (t <= b - sum f l); [|lra].
      apply (total_le g); auto. intros m Nm. specialize (U l m Nl Nm). lra. }
    lra.
Qed.

(** A bijection only renames outcomes. *)
Lemma total_rename {A B} (h : A -> B) (k : B -> A) (f : B -> R) s :
  (forall a, k (h a) = a) -> (forall b, h (k b) = b) ->
  total f s -> total (fun a => f (h a)) s.
Proof.
  intros KH HK [U L]. split.
  - intros v (l & N & ->). apply U. exists (map h l). split.
    + apply Injective_map_NoDup; auto. intros x y E. rewrite <- (KH x), E. apply KH.
    + rewrite sum_map. reflexivity.
  - intros b H. apply L. intros v (l & N & ->). apply H. exists (map k l). split.
    + apply Injective_map_NoDup; auto. intros x y E. rewrite <- (HK x), E. apply HK.
    + rewrite sum_map. apply sum_ext. intros a _. rewrite HK. reflexivity.
Qed.

(** Outcomes renamed by an injection whose range is decided by [back]. *)
Lemma total_inject {A B} (h : A -> B) (back : B -> option A) (f : A -> R) (g : B -> R) s :
  (forall a, back (h a) = Some a) -> (forall b a, back b = Some a -> h a = b) ->
  (forall a, g (h a) = f a) -> (forall b, back b = None -> g b = 0) -> total f s -> total g s.
Proof.
  intros BH HB G Z [U L].
  assert (E : forall l, NoDup l -> exists m, NoDup m /\ sum g l = sum f m /\ forall a, In a m -> In (h a) l).
  { induction 1 as [|b l Hb N (m & M & E & I)]; [exists []; repeat split; try constructor; simpl; tauto|].
    destruct (back b) as [a|] eqn:Eb.
    - exists (a :: m). rewrite <- (HB _ _ Eb) in *. simpl. rewrite G, E. repeat split; auto.
      + constructor; auto.
      + intros x [->|Hx]; auto.
    - exists m. simpl. rewrite (Z b Eb), E. repeat split; auto; lra. }
  split.
  - intros v (l & N & ->). destruct (E l N) as (m & M & -> & _). apply U. eauto.
  - intros b H. apply L. intros v (l & N & ->). apply H. exists (map h l). split.
    + apply Injective_map_NoDup; auto. intros x y Exy. pose proof (BH x). rewrite Exy, BH in H0. congruence.
    + rewrite sum_map. apply sum_ext. auto.
Qed.

(** ** Laws *)

Record law (A : Type) := { mass :> A -> R; mass_nonneg : forall a, 0 <= mass a; mass_total : total mass 1 }.
Arguments mass {A}. Arguments mass_nonneg {A}. Arguments mass_total {A}.

Lemma mass_sum {A} (P : law A) l : NoDup l -> sum P l <= 1.
Proof. apply total_ub, mass_total. Qed.

Lemma mass_le_1 {A} (P : law A) a : P a <= 1.
Proof.
  replace (P a) with (sum P [a]) by (simpl; lra). apply mass_sum. repeat constructor; auto.
Qed.

(** The probability of an event: the mass of the outcomes in it. *)
Definition chance {A} (P : law A) (E : A -> bool) (p : R) : Prop := total (fun a => if E a then P a else 0) p.

Lemma chance_exists {A} (P : law A) E : {p | chance P E p}.
Proof.
  apply (total_exists _ 1). intros l N. apply Rle_trans with (sum P l); [|apply mass_sum; auto].
  apply sum_le. intros a _. pose proof (mass_nonneg P a). destruct (E a); lra.
Qed.

(** ** Joint laws: first a, then b with a law that may depend on a *)

Section Joint.
Context {A B : Type} (EA : forall a b : A, {a = b} + {a <> b}).

(** The second components beside [a]. *)
Fixpoint beside (a : A) (l : list (A * B)) : list B :=
  match l with
  | [] => []
  | (x, b) :: l => if EA a x then b :: beside a l else beside a l
  end.

Lemma in_beside a b l : In b (beside a l) <-> In (a, b) l.
Proof.
  induction l as [|(x, y) l IH]; simpl; [tauto|].
  destruct (EA a x) as [<-|D]; simpl; rewrite IH.
  - split; (intros [H|H]; [left; congruence|right; exact H]).
  - split; [tauto|]. intros [H|H]; [congruence|exact H].
Qed.

Lemma NoDup_beside a l : NoDup l -> NoDup (beside a l).
Proof.
  induction 1 as [|(x, y) l H N IH]; simpl; [constructor|].
  destruct (EA a x) as [<-|D]; auto. constructor; auto. rewrite in_beside. auto.
Qed.

(** A sum over pairs, sorted by the first component. *)
Lemma sum_beside (f : A -> B -> R) l m :
  NoDup m -> (forall a b, In (a, b) l -> In a m) ->
  sum (fun p => f (fst p) (snd p)) l = sum (fun a => sum (f a) (beside a l)) m.
Proof.
  intros M. induction l as [|(x, y) l IH]; intros I; simpl.
  - symmetry. apply sum_zero. reflexivity.
  - rewrite IH by eauto with datatypes. clear IH.
    assert (Hx : In x m) by (apply (I x y); simpl; auto).
    destruct (in_split x m Hx) as (m1 & m2 & ->). rewrite !sum_remove.
    apply NoDup_remove in M as [M Hn].
    destruct (EA x x) as [_|D]; [|congruence]. simpl.
    rewrite (sum_ext (fun a => sum (f a) (if EA a x then y :: beside a l else beside a l))
                     (fun a => sum (f a) (beside a l)) (m1 ++ m2)); [lra|].
    intros a Ha. destruct (EA a x) as [->|]; [contradiction|reflexivity].
Qed.

Definition firsts (l : list (A * B)) : list A := nodup EA (map fst l).

Lemma firsts_ok l a b : In (a, b) l -> In a (firsts l).
Proof. intros H. apply nodup_In, in_map_iff. exists (a, b). auto. Qed.

Lemma sum_by_first (f : A -> B -> R) l :
  sum (fun p => f (fst p) (snd p)) l = sum (fun a => sum (f a) (beside a l)) (firsts l).
Proof. apply sum_beside; [apply NoDup_nodup|apply firsts_ok]. Qed.

Variables (P : law A) (K : A -> law B).

Definition joint_mass (p : A * B) : R := P (fst p) * K (fst p) (snd p).

Lemma joint_total : total joint_mass 1.
Proof.
  split.
  - intros v (l & N & ->). unfold joint_mass.
    rewrite (sum_by_first (fun a b => P a * K a b)).
    apply Rle_trans with (sum P (firsts l)); [|apply mass_sum, NoDup_nodup].
    apply sum_le. intros a _. rewrite sum_scale.
    rewrite <- (Rmult_1_r (P a)) at 2. apply Rmult_le_compat_l; [apply mass_nonneg|].
    apply mass_sum, NoDup_beside; auto.
  - intros b H. apply (total_le P); [apply mass_total|]. intros l N.
    apply le_epsilon. intros e He.
    (* each conditional law is used almost whole: the loss is at most e times the mass of l *)
    destruct (Rle_dec (sum P l) (b + e)) as [|C]; [lra|exfalso].
    assert (G : forall m, NoDup m -> forall n, NoDup n -> (forall a b', In (a, b') n -> ~ In a m) ->
      ~ (forall n', NoDup n' -> sum joint_mass n' < sum joint_mass n + (1 - e) * sum P m)).
    { intros m M. induction M as [|a m Ha M IH]; intros n Nn D C'.
      - specialize (C' n Nn). simpl in C'. lra.
      - apply (total_approx (K a) 1 e (mass_total _) He). intros k Nk.
        destruct (Rle_dec (sum (K a) k) (1 - e)) as [|Q]; [lra|exfalso].
        apply (IH (map (pair a) k ++ n)).
        + clear Q. induction Nk as [|y k Hy Nk IHk]; simpl; auto. constructor; auto.
          rewrite in_app_iff, in_map_iff. intros [(z & E & Hz)|Hz]; [congruence|].
          apply (D _ _ Hz). simpl. auto.
        + intros a' b'. rewrite in_app_iff, in_map_iff. intros [(z & E & Hz)|Hz].
          * inversion E; subst. assumption.
          * intros Hm. apply (D _ _ Hz). simpl. auto.
        + intros n' Nn'. specialize (C' n' Nn').
          rewrite sum_app, sum_map. unfold joint_mass at 2. simpl. rewrite sum_scale.
          simpl in C'. pose proof (mass_nonneg P a).
          assert (P a * (1 - e) <= P a * sum (K a) k) by (apply Rmult_le_compat_l; lra). lra. }
    apply (G l N []); [constructor|simpl; tauto|].
    intros n' Nn'. specialize (H _ (ex_intro _ n' (conj Nn' eq_refl))). simpl.
    pose proof (mass_sum P l N). pose proof (sum_nonneg P l (mass_nonneg P)). nra.
Qed.

Definition joint : law (A * B) :=
  {| mass := joint_mass;
     mass_nonneg := fun p => Rmult_le_pos _ _ (mass_nonneg P _) (mass_nonneg (K _) _);
     mass_total := joint_total |}.
End Joint.

(** ** What remains when the first component is forgotten *)

Section Second.
Context {A B : Type} (EA : forall a b : A, {a = b} + {a <> b}) (EB : forall a b : B, {a = b} + {a <> b}).
Variable J : law (A * B).

Lemma second_bounded b l : NoDup l -> sum (fun a => J (a, b)) l <= 1.
Proof.
  intros N. rewrite <- (sum_map (fun a => (a, b))). apply mass_sum.
  apply Injective_map_NoDup; auto. congruence.
Qed.

Definition second_mass (b : B) : R := proj1_sig (total_exists _ 1 (second_bounded b)).

Lemma second_spec b : total (fun a => J (a, b)) (second_mass b).
Proof. unfold second_mass. apply proj2_sig. Qed.

Lemma second_sums m : total (fun a => sum (fun b => J (a, b)) m) (sum second_mass m).
Proof.
  induction m as [|b m IH]; simpl.
  - apply (total_ext (fun _ => 0 * 0)); [intros; lra|]. split.
    + intros v (l & N & ->). rewrite sum_const. lra.
    + intros c H. apply H. exists []. split; [constructor|reflexivity].
  - apply total_plus; auto using second_spec; intros; [apply mass_nonneg|].
    apply sum_nonneg. intros. apply mass_nonneg.
Qed.

Lemma second_total : total second_mass 1.
Proof.
  split.
  - intros v (m & M & ->). apply (total_le _ _ _ (second_sums m)). intros l N.
    rewrite <- (sum_prod (fun a b => J (a, b))).
    rewrite (sum_ext _ J) by (intros (?, ?); reflexivity). apply mass_sum, NoDup_prod; auto.
  - intros c H. apply (total_le J); [apply mass_total|]. intros n N.
    set (l := nodup EA (map fst n)). set (m := nodup EB (map snd n)).
    apply Rle_trans with (sum second_mass m); [|apply H; exists m; split; [apply NoDup_nodup|auto]].
    apply Rle_trans with (sum (fun a => sum (fun b => J (a, b)) m) l).
    + rewrite <- (sum_prod (fun a b => J (a, b))).
      rewrite (sum_ext (fun p => J (fst p, snd p)) J) by (intros (?, ?); reflexivity).
      apply sum_incl; auto using mass_nonneg. intros (a, b) Hab. apply in_prod.
      * apply nodup_In, in_map_iff. exists (a, b); auto.
      * apply nodup_In, in_map_iff. exists (a, b); auto.
    + apply (total_ub _ _ _ (second_sums m)), NoDup_nodup.
Qed.

Definition second : law B :=
  {| mass := second_mass; mass_nonneg := fun b => total_nonneg _ _ (second_spec b); mass_total := second_total |}.
End Second.

(** The law of K applied to a draw from P: randomised post-processing. *)
Definition after {A B} (EA : forall a b : A, {a = b} + {a <> b}) (EB : forall a b : B, {a = b} + {a <> b})
  (P : law A) (K : A -> law B) : law B := second EA EB (joint EA P K).

(** One certain outcome. *)
Definition certain {A} (EA : forall a b : A, {a = b} + {a <> b}) (x : A) : law A.
Proof.
  refine {| mass := fun a => if EA a x then 1 else 0 |}.
  - intros a. destruct (EA a x); lra.
  - assert (E : sum (fun a => if EA a x then 1 else 0) [x] = 1) by (simpl; destruct (EA x x); [lra|congruence]).
    set (f := fun a => if EA a x then 1 else 0) in *. rewrite <- E. apply total_finite; auto; unfold f.
    + intros a. destruct (EA a x); lra.
    + repeat constructor. simpl. tauto.
    + intros a H. destruct (EA a x) as [->|]; [simpl in H; tauto|reflexivity].
Defined.

Definition image {A B} (EA : forall a b : A, {a = b} + {a <> b}) (EB : forall a b : B, {a = b} + {a <> b})
  (P : law A) (h : A -> B) : law B := after EA EB P (fun a => certain EB (h a)).

(** ** Outcomes under other names *)

Section Relabel.
Context {A B : Type} (h : A -> B) (back : B -> option A).
Hypotheses (back_h : forall a, back (h a) = Some a) (h_back : forall b a, back b = Some a -> h a = b).

Definition relabel (P : law A) : law B.
Proof.
  refine {| mass := fun b => match back b with Some a => P a | None => 0 end |}.
  - intros b. destruct (back b); [apply mass_nonneg|lra].
  - apply (total_inject h back P); auto.
    + intros a. rewrite back_h. reflexivity.
    + intros b ->. reflexivity.
    + apply mass_total.
Defined.
End Relabel.
